import type { CloudBackupJob } from '../../../api/index.ts';
import { formatBytes, formatCount } from '../../../ui/index.ts';

type Counts = Pick<CloudBackupJob, 'itemsNew' | 'itemsUpdated' | 'itemsDeleted' | 'itemsFailed'>;

/** "12 new, 3 changed, 1 deleted, 2 failed": those of which there is any. */
export function countsText({ itemsNew, itemsUpdated, itemsDeleted, itemsFailed }: Counts): string {
  const parts = [
    [itemsNew, 'new'],
    [itemsUpdated, 'changed'],
    [itemsDeleted, 'deleted'],
    [itemsFailed, 'failed'],
  ] as const;
  const text = parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${formatCount(count)} ${word}`)
    .join(', ');
  return text === '' ? 'Nothing has changed' : text;
}

export function restoredText({ itemsNew, itemsFailed, itemsProcessed }: CloudBackupJob): string {
  const present = itemsProcessed - itemsNew - itemsFailed;
  const text = [
    [itemsNew, 'restored'],
    [present, 'there already'],
    [itemsFailed, 'failed'],
  ]
    .filter(([count]) => Number(count) > 0)
    .map(([count, word]) => `${formatCount(Number(count))} ${word}`)
    .join(', ');
  return text === '' ? 'Nothing yet' : text;
}

export interface Live {
  percent?: number | null | undefined;
  done?: number | null | undefined;
}

/** What a job that has not ended has done so far. */
export function progressText(job: CloudBackupJob, live: Live | undefined): string {
  const done = live?.done ?? job.itemsProcessed;
  return [
    job.type === 'backup' ? `${formatCount(done)} items looked at` : `${formatCount(done)} items done`,
    live?.percent == null || live.percent === 0 ? undefined : `${Math.round(live.percent)} %`,
    job.bytesTransferred === 0 ? undefined : `${formatBytes(job.bytesTransferred)} received`,
  ]
    .filter((part) => part !== undefined)
    .join(' · ');
}

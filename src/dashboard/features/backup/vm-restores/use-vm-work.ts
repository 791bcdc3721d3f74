import type { JobUpdate } from '../../../../protocol/index.ts';
import { useRefreshOn } from '../../../api/index.ts';
import { useLiveJobs } from '../../../live/index.ts';

/** All that shows a machine of a snapshot. */
export const VM_READS = [
  'GET /backup/restore/vm/{id}',
  'GET /backup/restore/vm',
  'GET /backup/restore/instant-boot/active',
] as const;

/** How far the work on machines of snapshots is, by their ids. What else is new of them is read again. */
export function useVmWork(orgId: string | undefined): ReadonlyMap<string, JobUpdate> {
  const work = useLiveJobs(orgId === undefined ? {} : { orgId }).filter(({ kind }) => kind === 'vm_restore');
  useRefreshOn(work.map(newsOf).sort().join(), VM_READS);
  return new Map(work.map((job) => [job.id, job]));
}

/** What counts as news: each change of a machine that nothing is done to, but not each percent of a copy. */
const newsOf = ({ id, state, phase, percent, at }: JobUpdate): string =>
  [id, state, phase, percent == null ? at : ''].join(' ');

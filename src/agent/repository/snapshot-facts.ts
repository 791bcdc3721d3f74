import { statfs } from 'node:fs/promises';
import os from 'node:os';
import type { backup, Repository } from '../../engine/index.ts';
import type { BackupResult } from '../../protocol/index.ts';
import { namedPaths } from './reports.ts';

/** What every backup tells restic and the server, whatever it backs up. */

/** By this tag, the server finds the snapshot of a job whose result it has never received. */
export const jobTag = (jobId: string) => `muster-job-${jobId}`;

/** Of a disk or a share: nobody else can find out in time that it is full soon. */
export async function destinationRoom({
  destination,
}: Repository): Promise<Pick<BackupResult, 'destinationRoom'>> {
  if (destination.type !== 'local') return {};
  try {
    const { bavail, blocks, bsize } = await statfs(destination.path);
    return { destinationRoom: { freeBytes: bavail * bsize, totalBytes: blocks * bsize } };
  } catch {
    // The backup was made, whatever the disk says of itself.
    return {};
  }
}

export function processorsFor(percent: number | undefined): number | undefined {
  return percent === undefined ? undefined : Math.max(1, Math.floor((os.cpus().length * percent) / 100));
}

/** What restic has reported, as the server is told. */
export const resultOf = (
  { status, snapshotId, unreadable, ...made }: Awaited<ReturnType<typeof backup>>,
  takenAt: string,
): BackupResult => ({
  status,
  snapshotId,
  takenAt,
  filesNew: made.filesNew,
  filesChanged: made.filesChanged,
  filesUnmodified: made.filesUnmodified,
  bytesProcessed: made.bytesProcessed,
  bytesAdded: made.bytesAdded,
  seconds: made.seconds,
  unreadable: namedPaths(unreadable),
});

import { median, type SnapshotFigures } from './protection.ts';

/** Signs of ransomware, or of somebody who deletes: what one backup can show, without reading its content. */

export type Anomaly =
  | { sign: 'size_drop'; baselineBytes: number; sizeBytes: number }
  | { sign: 'changes'; changedFiles: number; fileCount: number };

/** Smaller backups vary by themselves. */
const LEAST_BYTES = 1024 * 1024;
const LEAST_FILES = 100;
const DROP_BELOW = 0.5;
const RECOVERED_FROM = 0.7;
const FLOOD_FROM = 0.5;
const USUAL_BELOW = 0.2;

/**
 * Judges the newest snapshot by the ones before it:
 * - `size_drop`: it has less than half of their median size, which is at least 1 MiB.
 * - `changes`: at least half of its files, and at least 100, were changed, while the median share before was below 20 %.
 */
export function findAnomaly([newest, ...earlier]: readonly SnapshotFigures[]): Anomaly | undefined {
  if (newest === undefined || earlier.length === 0) return undefined;
  const baselineBytes = median(earlier.flatMap(({ sizeBytes }) => sizeBytes ?? []));
  const { sizeBytes, changedFiles, fileCount } = newest;
  if (
    sizeBytes !== null &&
    baselineBytes !== undefined &&
    baselineBytes >= LEAST_BYTES &&
    sizeBytes < baselineBytes * DROP_BELOW
  ) {
    return { sign: 'size_drop', baselineBytes, sizeBytes };
  }
  const usual = median(earlier.flatMap((each) => shareOf(each) ?? []));
  const share = shareOf(newest);
  if (share === undefined || usual === undefined || changedFiles === null || fileCount === null) {
    return undefined;
  }
  const isFlood = changedFiles >= LEAST_FILES && share >= FLOOD_FROM && usual < USUAL_BELOW;
  return isFlood ? { sign: 'changes', changedFiles, fileCount } : undefined;
}

/**
 * Whether a size drop is over. It goes by the baseline of its beginning: further small backups would otherwise become
 * what is usual, and end the alert that protects the large ones.
 */
export const hasRecovered = (baselineBytes: number, newest: SnapshotFigures | undefined): boolean =>
  newest?.sizeBytes != null && newest.sizeBytes >= baselineBytes * RECOVERED_FROM;

function shareOf({ changedFiles, fileCount }: SnapshotFigures): number | undefined {
  return changedFiles === null || fileCount === null || fileCount === 0
    ? undefined
    : changedFiles / fileCount;
}

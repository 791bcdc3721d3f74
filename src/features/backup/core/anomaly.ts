import { median, type SnapshotFigures } from './protection.ts';

/** Signs of ransomware, or of somebody who deletes: what one backup can show, without reading its content. */

export type Anomaly =
  | { sign: 'size_drop'; baselineBytes: number; sizeBytes: number }
  | { sign: 'changes'; changedFiles: number; fileCount: number }
  | { sign: 'rewritten'; receivedBytes: number; usualBytes: number };

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
 * - `rewritten`: beyond what it has grown, the store has received at least half of the median size before with it, while
 *   the median share before was below 20 %. So it shows in a few large files as well, and whatever the device says of
 *   changes: encrypted files are new data.
 *
 * The last two leave out a first backup, of which everything is new.
 */
export function findAnomaly([newest, ...earlier]: readonly SnapshotFigures[]): Anomaly | undefined {
  if (newest === undefined || earlier.length === 0) return undefined;
  const baselineBytes = median(earlier.flatMap(({ sizeBytes }) => sizeBytes ?? []));
  const { sizeBytes } = newest;
  if (
    sizeBytes !== null &&
    baselineBytes !== undefined &&
    baselineBytes >= LEAST_BYTES &&
    sizeBytes < baselineBytes * DROP_BELOW
  ) {
    return { sign: 'size_drop', baselineBytes, sizeBytes };
  }
  const usual = earlier.filter((each, n) => n < earlier.length - 1 || shareChanged(each) !== 1);
  return (
    findChanges(newest, usual) ??
    (baselineBytes !== undefined && baselineBytes >= LEAST_BYTES
      ? findRewritten(newest, usual, baselineBytes)
      : undefined)
  );
}

function findChanges(newest: SnapshotFigures, usual: readonly SnapshotFigures[]): Anomaly | undefined {
  const { changedFiles, fileCount } = newest;
  if (changedFiles === null || fileCount === null || changedFiles < LEAST_FILES) return undefined;
  return isFlood(newest, usual, shareChanged) ? { sign: 'changes', changedFiles, fileCount } : undefined;
}

function findRewritten(
  newest: SnapshotFigures,
  usual: readonly SnapshotFigures[],
  usualBytes: number,
): Anomaly | undefined {
  const { receivedBytes } = newest;
  const share = ({ receivedBytes: bytes, sizeBytes }: SnapshotFigures) =>
    bytes === null || sizeBytes === null
      ? undefined
      : (bytes - Math.max(0, sizeBytes - usualBytes)) / usualBytes;
  return receivedBytes !== null && isFlood(newest, usual, share)
    ? { sign: 'rewritten', receivedBytes, usualBytes }
    : undefined;
}

function isFlood(
  newest: SnapshotFigures,
  usual: readonly SnapshotFigures[],
  shareOf: (each: SnapshotFigures) => number | undefined,
): boolean {
  const before = median(usual.flatMap((each) => shareOf(each) ?? []));
  const share = shareOf(newest);
  return share !== undefined && before !== undefined && share >= FLOOD_FROM && before < USUAL_BELOW;
}

/**
 * Whether a size drop is over. It goes by the baseline of its beginning: further small backups would otherwise become
 * what is usual, and end the alert that protects the large ones.
 */
export const hasRecovered = (baselineBytes: number, newest: SnapshotFigures | undefined): boolean =>
  newest?.sizeBytes != null && newest.sizeBytes >= baselineBytes * RECOVERED_FROM;

function shareChanged({ changedFiles, fileCount }: SnapshotFigures): number | undefined {
  return changedFiles === null || fileCount === null || fileCount === 0
    ? undefined
    : changedFiles / fileCount;
}

import { MINUTE_MS } from '../../clock.ts';
import { z } from 'zod';
import { closedMinutes } from './schedule.ts';

// The facts about how well a device is protected, from which alerts, readiness and SLA events are computed.

const Moment = z.number().transform((epochMs) => new Date(epochMs));

export const SnapshotFigures = z.object({
  id: z.uuid(),
  receivedAt: Moment,
  sizeBytes: z.number().nullable(),
  fileCount: z.number().nullable(),
  changedFiles: z.number().nullable(),
  /** Known by the store itself, if the backup went there. */
  receivedBytes: z.number().nullable(),
  isPartial: z.boolean(),
  lacksFiles: z.boolean(),
  emptySources: z.array(z.string()).nullable(),
  /** For images of machines: the worst consistency among them. */
  consistency: z.string().nullable(),
});
export type SnapshotFigures = z.infer<typeof SnapshotFigures>;

/** How the backups of databases in a repository hang together. */
export interface ChainEnds {
  /** When the newest snapshot arrived that a restore can use; `null`: none can be restored. */
  restorableAt: Date | null;
  /** Why the newest snapshot of a server of databases cannot be restored; `null`: it can be. */
  brokenBecause: string | null;
}

const Proof = z.object({ status: z.enum(['passed', 'failed', 'partial']), at: Moment });

const StoredProtection = z.object({
  repositoryId: z.uuid(),
  configId: z.uuid(),
  configName: z.string(),
  provider: z.enum(['server', 's3', 'local']),
  /** `null` if backups begin by hand only. */
  frequency: z.enum(['hourly', 'daily', 'weekly', 'monthly']).nullable(),
  /** The window of its schedule; null: it has none. */
  windowStart: z.string().nullable(),
  windowEnd: z.string().nullable(),
  /** When the configuration became what it is, or the repository was made: the later of both. */
  since: Moment,
  /** The newest snapshots, the newest first. */
  snapshots: z.array(SnapshotFigures),
  lastJob: z
    .object({
      status: z.enum(['completed', 'partial', 'failed']),
      errorCode: z.string().nullable(),
      errorMessage: z.string().nullable(),
      finishedAt: Moment,
    })
    .nullable(),
  failuresOfWeek: z.number(),
  integrity: Proof.nullable(),
  testRestore: Proof.nullable(),
  keyRotatesSince: Moment.nullable(),
  /** Its snapshots are of databases, and may need each other. */
  hasDatabases: z.boolean(),
});

/** One repository of the device, and the configuration that it belongs to. */
export interface Protection extends z.infer<typeof StoredProtection> {
  /** For devices with databases; `null` for all others. */
  chainEnds: ChainEnds | null;
}
const Protection = StoredProtection.transform((stored): Protection => ({ ...stored, chainEnds: null }));

/** When the newest snapshot arrived that a restore can use: one of a database may need others that are gone. */
export const newestRestorable = ({
  snapshots,
  chainEnds,
}: Pick<Protection, 'snapshots' | 'chainEnds'>): Date | undefined =>
  chainEnds === null ? snapshots[0]?.receivedAt : (chainEnds.restorableAt ?? undefined);

export const DeviceFacts = z.object({
  deviceId: z.uuid(),
  orgId: z.uuid(),
  deviceName: z.string(),
  protections: z.array(Protection),
  /** The last restores of its backups; test restores only if it has none. */
  restores: z.array(z.object({ bytes: z.number(), seconds: z.number() })),
  /** The strictest targets of the active SLAs of its organization that are about it; `null`: there is none. */
  slaTargets: z.object({ rpoMinutes: z.number().nullable(), rtoMinutes: z.number().nullable() }),
});
export type DeviceFacts = z.infer<typeof DeviceFacts>;

const MINUTES = { hourly: 60, daily: 1440, weekly: 10_080, monthly: 44_640 } as const;
/** How long a backup may be late: it waits for its window, its turn, and a device that is switched on in the morning. */
const GRACE = { hourly: 120, daily: 720, weekly: 2880, monthly: 4320 } as const;

export const minutesSince = (at: Date, now: Date): number =>
  Math.max(0, (now.getTime() - at.getTime()) / MINUTE_MS);

/** What says how often backups come. */
type Rhythm = Pick<Protection, 'frequency' | 'windowStart' | 'windowEnd'>;

/**
 * The age at which the newest snapshot becomes a problem: one interval and its grace; `undefined`: none is expected. A
 * backup of each hour comes in its window only, so that the longest interval is the time in which that is closed.
 */
export function expectedWithinMinutes({ frequency, windowStart, windowEnd }: Rhythm): number | undefined {
  if (frequency === null) return undefined;
  const closed = frequency === 'hourly' ? closedMinutes({ windowStart, windowEnd }) : 0;
  return MINUTES[frequency] + GRACE[frequency] + closed;
}

/**
 * Since when a scheduled backup is missing, by the server's clock; `undefined` if none is.
 * @param since  since when backups are scheduled like this
 * @param newest  when the last good one was had
 */
export function lateSince(
  { since, newest, ...rhythm }: Rhythm & Pick<Protection, 'since'> & { newest: Date | undefined },
  now: Date,
): Date | undefined {
  const allowed = expectedWithinMinutes(rhythm);
  const reference = newest !== undefined && newest > since ? newest : since;
  if (allowed === undefined || minutesSince(reference, now) <= allowed) return undefined;
  return new Date(reference.getTime() + allowed * MINUTE_MS);
}

export const missedSince = (protection: Protection, now: Date): Date | undefined =>
  lateSince({ ...protection, newest: newestRestorable(protection) }, now);

/**
 * The age of the data of the worst-protected configuration: of its newest snapshot that can be restored. `null`: one has
 * none.
 */
export function worstAgeMinutes({ protections }: Pick<DeviceFacts, 'protections'>, now: Date): number | null {
  const ages = protections.map((protection) => {
    const newest = newestRestorable(protection);
    return newest === undefined ? Infinity : minutesSince(newest, now);
  });
  const worst = ages.length === 0 ? Infinity : Math.max(...ages);
  return Number.isFinite(worst) ? worst : null;
}

/** The time of a restore beside the transfer: a person has to begin it, and the engine to read its index. */
const RESTORE_OVERHEAD_MINUTES = 5;

/**
 * Minutes to restore all of the device:
 *
 *     5 + bytes of the newest snapshot of each configuration / rate / 60
 *     rate = bytes of the last five restores / their seconds
 *
 * All five are taken together, because a restore of a few small files says little about the speed. `null` while nothing
 * was restored from the device's backups.
 */
export function estimatedRtoMinutes({
  protections,
  restores,
}: Pick<DeviceFacts, 'protections' | 'restores'>): number | null {
  const [restored, seconds] = [sumOf(restores, 'bytes'), sumOf(restores, 'seconds')];
  if (restored <= 0 || seconds <= 0) return null;
  const bytes = protections.reduce((sum, { snapshots: [newest] }) => sum + (newest?.sizeBytes ?? 0), 0);
  return Math.ceil(RESTORE_OVERHEAD_MINUTES + (bytes * seconds) / restored / 60);
}

const sumOf = <K extends string>(rows: readonly Record<K, number>[], key: K) =>
  rows.reduce((sum, row) => sum + row[key], 0);

export function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

// Signs of ransomware or deletion that one backup shows without its content being read.

type Anomaly =
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

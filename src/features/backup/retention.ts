import { DAY_MS } from '../../clock.ts';
import { z } from 'zod';
import { type LocalTime, localTime } from './schedule.ts';

const count = (max: number, what: string) => z.number().int().min(1).max(max).optional().describe(what);

/** For how long snapshots are kept. What several fields keep is kept; without any, everything is. */
export const Retention = z
  .strictObject({
    keepLast: count(1000, 'The newest snapshots.'),
    keepDaily: count(3650, 'The newest snapshot of each of so many days on which there was one.'),
    keepWeekly: count(520, 'The same for weeks, which begin on Monday.'),
    keepMonthly: count(120, 'The same for months.'),
    keepYearly: count(25, 'The same for years.'),
    retentionDays: count(3650, 'Every snapshot that is younger.'),
    immutableDays: count(
      3650,
      'For so many days after its arrival a snapshot cannot be deleted, and its data stays recoverable.',
    ),
  })
  .meta({ id: 'BackupRetention' });
export type Retention = z.infer<typeof Retention>;

/**
 * Which snapshots of a repository stay. It goes by when the store received them: the time that a device claims would let
 * it push out its own past (restic/restic#22057).
 */

/** Nothing that arrived in so many days goes, whatever the policy says: an attack has to be noticed first. */
export const ALWAYS_KEPT_DAYS = 7;

export interface HeldSnapshot {
  id: string;
  receivedAt: Date;
  hasLegalHold: boolean;
  immutableUntil: Date | null;
  /** The snapshot was found in the repository: no job of this server has made it. */
  isFound?: boolean;
  /**
   * The ids of its contents, if the snapshots of a repository do not all hold the same, such as the machines of a
   * hypervisor: those of one thing push out no others.
   */
  series?: readonly string[] | undefined;
}

/** Why a snapshot stays. */
export type KeepReason =
  | 'newest'
  | 'recent'
  | 'legal_hold'
  | 'immutable'
  | 'frozen'
  | 'no_policy'
  | 'retention_days'
  | 'last'
  | 'daily'
  | 'weekly'
  | 'monthly'
  | 'yearly';

export interface RetentionSituation {
  now: Date;
  /** The time zone of days, weeks, months and years. */
  timeZone: string;
  /** Nothing goes, for example while a sign of ransomware is open. */
  isFrozen: boolean;
}

/** For each snapshot the reasons why it stays. A snapshot without any may go. */
export function decideRetention(
  snapshots: readonly HeldSnapshot[],
  policy: Retention,
  { now, timeZone, isFrozen }: RetentionSituation,
): ReadonlyMap<string, readonly KeepReason[]> {
  const newestFirst = [...snapshots].sort(
    (a, b) => b.receivedAt.getTime() - a.receivedAt.getTime() || (a.id < b.id ? 1 : -1),
  );
  const reasons = new Map(newestFirst.map(({ id }) => [id, [] as KeepReason[]]));
  const keep = (id: string, reason: KeepReason) => reasons.get(id)?.push(reason);
  const age = ({ receivedAt }: HeldSnapshot) => now.getTime() - receivedAt.getTime();
  const local = new Map(newestFirst.map(({ id, receivedAt }) => [id, localTime(receivedAt, timeZone)]));

  for (const [index, one] of newestFirst.entries()) {
    if (index === 0) keep(one.id, 'newest');
    if (isFrozen) keep(one.id, 'frozen');
    if (age(one) < ALWAYS_KEPT_DAYS * DAY_MS) keep(one.id, 'recent');
    if (one.hasLegalHold) keep(one.id, 'legal_hold');
    if (one.immutableUntil !== null && one.immutableUntil > now) keep(one.id, 'immutable');
    if (index < (policy.keepLast ?? 0)) keep(one.id, 'last');
    if (policy.retentionDays !== undefined && age(one) < policy.retentionDays * DAY_MS) {
      keep(one.id, 'retention_days');
    }
    if (isEmpty(policy)) keep(one.id, 'no_policy');
  }
  for (const { reason, count, bucketOf } of BUCKETS) {
    const seen = new Set<string>();
    for (const { id } of newestFirst) {
      const time = local.get(id);
      const bucket = time === undefined ? '' : bucketOf(time);
      if (seen.has(bucket)) continue;
      if (seen.size >= (policy[count] ?? 0)) break;
      seen.add(bucket);
      keep(id, reason);
    }
  }
  return reasons;
}

/**
 * The ids of those that may go. Found ones push nothing out that a job has made: however many were written into the
 * repository, the others stay that would stay without them.
 */
export function mayGo(
  snapshots: readonly HeldSnapshot[],
  policy: Retention,
  situation: RetentionSituation,
): ReadonlySet<string> {
  const going = new Set(snapshots.map(({ id }) => id));
  for (const members of membersOfSeries(snapshots)) {
    const outdated = outdatedOf(members, policy, situation);
    for (const { id } of members) if (!outdated.has(id)) going.delete(id);
  }
  return going;
}

/** The snapshots of each series. Series that the same snapshots hold are decided once. */
function membersOfSeries(snapshots: readonly HeldSnapshot[]): HeldSnapshot[][] {
  const bySeries = new Map<string, HeldSnapshot[]>();
  for (const snapshot of snapshots) {
    for (const name of new Set(snapshot.series ?? [''])) {
      const members = bySeries.get(name);
      if (members === undefined) bySeries.set(name, [snapshot]);
      else members.push(snapshot);
    }
  }
  const keyOf = (members: readonly HeldSnapshot[]) => members.map(({ id }) => id).join();
  return [...new Map([...bySeries.values()].map((members) => [keyOf(members), members])).values()];
}

function outdatedOf(
  snapshots: readonly HeldSnapshot[],
  policy: Retention,
  situation: RetentionSituation,
): ReadonlySet<string> {
  const ofAll = decideRetention(snapshots, policy, situation);
  const ofJobs = decideRetention(
    snapshots.filter(({ isFound = false }) => !isFound),
    policy,
    situation,
  );
  const goes = ({ id }: HeldSnapshot) => ofAll.get(id)?.length === 0 && (ofJobs.get(id)?.length ?? 0) === 0;
  return new Set(snapshots.filter(goes).map(({ id }) => id));
}

const COUNTS = ['keepLast', 'keepDaily', 'keepWeekly', 'keepMonthly', 'keepYearly', 'retentionDays'] as const;

/** A policy that names nothing keeps everything; `immutableDays` alone only forbids. */
const isEmpty = (policy: Retention): boolean => COUNTS.every((count) => policy[count] === undefined);

/** The newest snapshot of each of the newest buckets stays. Buckets without snapshots do not count. */
const BUCKETS = [
  { reason: 'daily', count: 'keepDaily', bucketOf: ({ year, month, day }) => `${year}-${month}-${day}` },
  { reason: 'weekly', count: 'keepWeekly', bucketOf: (time) => String(weekOf(time)) },
  { reason: 'monthly', count: 'keepMonthly', bucketOf: ({ year, month }) => `${year}-${month}` },
  { reason: 'yearly', count: 'keepYearly', bucketOf: ({ year }) => String(year) },
] as const satisfies readonly {
  reason: KeepReason;
  count: keyof Retention;
  bucketOf: (time: LocalTime) => string;
}[];

/** Counts weeks, which begin on Monday, from a Monday on. */
const weekOf = ({ year, month, day }: LocalTime): number =>
  Math.floor((Date.UTC(year, month - 1, day) - Date.UTC(1970, 0, 5)) / (7 * DAY_MS));

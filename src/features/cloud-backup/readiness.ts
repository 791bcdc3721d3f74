import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { type NewAlert, resolveAlert, followCauses, raiseAlert } from '../alerts/index.ts';
import { type RiskSeverity, readinessRules } from '../backup/index.ts';
import { readinessFacts, type Which, writeReadiness, failedConfigs } from './cloud-backup.queries.ts';

const Moment = z.number().transform((epochMs) => new Date(epochMs));

/** The facts from which the readiness of a configuration follows. */
export const CloudFacts = z.object({
  configId: z.uuid(),
  orgId: z.uuid(),
  name: z.string(),
  /** `null` if runs are started by hand only. */
  frequency: z.enum(['hourly', 'daily', 'weekly', 'monthly']).nullable(),
  /** The window of the schedule; null: it has none. */
  windowStart: z.string().nullable(),
  windowEnd: z.string().nullable(),
  /** When this schedule was set. */
  since: Moment,
  lastSuccessAt: Moment.nullable(),
  /** Only runs that have ended and were not cancelled. */
  lastRun: z
    .object({ status: z.enum(['completed', 'partial', 'failed']), errorCode: z.string().nullable() })
    .nullable(),
  failuresOfWeek: z.number(),
  /** When the connection was last used or tested. */
  isConnectionFailing: z.boolean(),
});
export type CloudFacts = z.infer<typeof CloudFacts>;

/** The deduction from 100 for each risk. Devices use the same scale (docs/decisions/backup-care.md). */
export const CLOUD_RISKS = {
  no_backup: { points: 100, severity: 'critical', message: 'No run has ended well yet.' },
  backup_overdue: {
    points: 45,
    severity: 'critical',
    message: 'The last good run is more than twice as old as it may be.',
  },
  backup_stale: { points: 25, severity: 'high', message: 'The last good run is older than it may be.' },
  connection_failing: {
    points: 30,
    severity: 'high',
    message: 'The connection to Microsoft failed when it was last used or tested.',
  },
  destination: { points: 15, severity: 'high', message: 'The backup store was full at the last run.' },
  last_failed: { points: 20, severity: 'medium', message: 'The last run has failed.' },
  failures: {
    points: 15,
    severity: 'medium',
    message: 'Three or more runs of the last 7 days have failed.',
  },
  partial: {
    points: 5,
    severity: 'low',
    message: 'The last run is partial: some users or items could not be read.',
  },
} as const satisfies Record<string, { points: number; severity: RiskSeverity; message: string }>;

export interface CloudReadiness {
  score: number;
  rpoMinutes: number | null;
  risks: { code: keyof typeof CLOUD_RISKS; severity: RiskSeverity; message: string }[];
  isFailing: boolean;
  isLate: boolean;
  isUnprotected: boolean;
}

export function cloudReadinessOf(facts: CloudFacts, now: Date): CloudReadiness {
  const codes = new Set(risksOf(facts, now));
  const { lastSuccessAt } = facts;
  return {
    ...readinessRules.scoreOf(CLOUD_RISKS, codes),
    rpoMinutes: lastSuccessAt === null ? null : Math.ceil(readinessRules.minutesSince(lastSuccessAt, now)),
    isFailing: codes.has('last_failed') || codes.has('connection_failing'),
    isLate: codes.has('backup_overdue') || codes.has('backup_stale'),
    isUnprotected: codes.has('no_backup'),
  };
}

function* risksOf(facts: CloudFacts, now: Date): Generator<keyof typeof CLOUD_RISKS> {
  const { lastSuccessAt, lastRun, failuresOfWeek, isConnectionFailing } = facts;
  if (lastSuccessAt === null) yield 'no_backup';
  else {
    const tooOld = readinessRules.ageRisk(
      readinessRules.minutesSince(lastSuccessAt, now),
      readinessRules.expectedWithinMinutes(facts),
    );
    if (tooOld !== undefined) yield tooOld;
  }
  if (isConnectionFailing) yield 'connection_failing';
  if (lastRun?.status === 'failed') yield 'last_failed';
  if (lastRun?.errorCode === 'STORAGE_FULL') yield 'destination';
  if (lastRun?.status === 'partial') yield 'partial';
  if (failuresOfWeek >= 3) yield 'failures';
}

/** Since when a successful scheduled run is missing; `undefined` if none is. */
export const missingSince = ({ lastSuccessAt, ...facts }: CloudFacts, now: Date): Date | undefined =>
  readinessRules.lateSince({ ...facts, newest: lastSuccessAt ?? undefined }, now);

const Rows = z.array(CloudFacts);

/** Computes how well configurations protect their data, and stores it for lists and sums. */
export async function storeReadiness(tx: Tx, which: Which, now = clock.date()): Promise<CloudFacts[]> {
  const facts = Rows.parse(await readinessFacts(tx, which));
  const computed = facts.map(({ configId, orgId, ...rest }) => ({
    configId,
    orgId,
    ...cloudReadinessOf({ configId, orgId, ...rest }, now),
  }));
  await writeReadiness(tx, computed);
  return facts;
}

export const RUN_MISSED = 'cloud_backup_missed';
export const MISSED_NO_MORE =
  'Every scheduled cloud backup has ended well again, or none is expected any more.';

/** Updates the stored readiness after a run has ended or a configuration has changed, and ends the alert if it is due. */
export async function updateReadiness(tx: Tx, orgId: string): Promise<void> {
  const now = clock.date();
  const facts = await storeReadiness(tx, { orgId }, now);
  if (facts.some((one) => missingSince(one, now) !== undefined)) return;
  await resolveAlert(tx, { orgId, kind: RUN_MISSED, why: MISSED_NO_MORE });
}

/** One alert for each organization with a configuration of which a scheduled run is missing. */
export function missedAlerts(facts: readonly CloudFacts[], now: Date): NewAlert[] {
  const late = new Map<string, { configId: string; name: string; since: Date }[]>();
  for (const one of facts) {
    const since = missingSince(one, now);
    if (since === undefined) continue;
    const { orgId, configId, name } = one;
    late.set(orgId, [...(late.get(orgId) ?? []), { configId, name, since }]);
  }
  return [...late].map(([orgId, configs]) => ({
    orgId,
    kind: RUN_MISSED,
    severity: 'high',
    title:
      configs.length === 1
        ? `Cloud backup ${configs[0]?.name ?? ''}: a scheduled run is missing`
        : `Scheduled runs of ${configs.length} cloud backups are missing`,
    message: configs
      .map(({ name, since }) => `${name}: a run that ends well is missing since ${since.toISOString()}.`)
      .join('\n'),
    details: { configIds: configs.map(({ configId }) => configId) },
  }));
}

const RUN_FAILED = 'cloud_backup_failed';

/**
 * Makes the alert of an organization follow its runs: it stands while the last run of some configuration has failed. A
 * cancelled run says nothing, so the one before it counts.
 * @param hasFailed  whether a run has just failed; otherwise the alert can only end
 */
export async function updateFailedRunAlert(
  tx: Tx,
  orgId: string,
  { hasFailed }: { hasFailed: boolean },
): Promise<void> {
  const failed = await failedConfigs(tx, orgId);
  const [newest] = failed;
  if (newest === undefined) {
    const why = 'The last run of each configuration has ended well.';
    await resolveAlert(tx, { orgId, kind: RUN_FAILED, why });
    return;
  }
  if (!hasFailed) return;
  await raiseAlert(tx, {
    orgId,
    kind: RUN_FAILED,
    severity: 'high',
    title: `Cloud backup ${newest.name}: the run has failed`,
    message: failed.map(({ name, reason }) => `${name}: ${reason ?? 'it has failed.'}`).join('\n'),
    details: { configIds: failed.map(({ id }) => id), jobId: newest.jobId },
  });
}

const WATCH = defineJob({ name: 'c2c.watch', input: z.object({}), attempts: 1, inCluster: 1 });
const AT_ONCE = 500;
const NONE = '00000000-0000-0000-0000-000000000000';

export function watchRegularly({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(WATCH, ({ signal }) => watchConfigs(db, signal));
  jobs.schedule(WATCH, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}

/** Recomputes the readiness of every configuration, which changes with time alone, and updates the alerts. */
export async function watchConfigs(db: Db, signal: AbortSignal): Promise<void> {
  const now = clock.date();
  const late: CloudFacts[] = [];
  for (let after = NONE; !signal.aborted; ) {
    const page = await withSystem(db, 'compute how cloud backups protect', (tx) =>
      storeReadiness(tx, { after, limit: AT_ONCE }, now),
    );
    late.push(...page.filter((facts) => missingSince(facts, now) !== undefined));
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.configId ?? after;
  }
  // An interrupted round has not reached all configurations, so alerts must not be ended by it.
  if (signal.aborted) return;
  await withSystem(db, 'make the alerts about cloud backups follow', (tx) =>
    followCauses(tx, { kind: RUN_MISSED, alerts: missedAlerts(late, now), why: MISSED_NO_MORE }),
  );
}

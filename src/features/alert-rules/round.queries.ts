import type { Tx } from '../../platform/db/transaction.ts';
import { raiseOfRules } from '../alerts/index.ts';
import { alertText, clearedText, serviceClearedText } from './alert-text.ts';
import { RuleCondition } from './alert-rule.schema.ts';
import { countEvents } from './event-match.queries.ts';
import { dueAlerts, endCauses, forgetEnded, overAlerts, type OverAlert } from './match.queries.ts';
import { confirmServices, matchServices } from './service-match.queries.ts';
import { type Coverage, coverageBindings, type Session } from './round-parts.queries.ts';
import { BATCH_SIZE, raiseOffline, resolveOffline, resolveUnwatched } from './offline.queries.ts';

/** A round of all rules: what it locks, and the order of its statements. */

/** After this time without a round, the servers must have been down. */
const GAP = `interval '90 seconds'`;
/** After an outage the fleet has this time to reconnect before offline alerts are raised. */
const GRACE = `interval '10 minutes'`;

/** A server that restarts repeatedly cannot postpone the alerts forever. */
const GRACE_AT_MOST_EVERY = `interval '1 hour'`;

/** A round that this server has begun. */
export interface Locked {
  isWhole: boolean;
  /** Devices still have time to reconnect. */
  isEarly: boolean;
}

/** Begins a round, unless another server is running one or has just done so. */
export async function lockRound(
  tx: Tx,
  {
    everyMs,
    wholeEveryMs,
    startedAt,
    hasJustStarted,
  }: { everyMs: number; wholeEveryMs: number; startedAt: Date; hasJustStarted: boolean },
): Promise<Locked | undefined> {
  const { rows } = await tx.raw<{ rows: Locked[] }>(
    `with mine as materialized (
        select * from alert_rounds where through <= clock_timestamp() - ? * interval '1 millisecond'
        for update skip locked
      ), watched as (
        update alert_rounds r set watched_since = now() from mine
        where mine.through < now() - ${GAP} or ? and mine.watched_since < now() - ${GRACE_AT_MOST_EVERY}
          and mine.watched_since < ? and exists (select from device_presence where since < ?)
        returning r.watched_since
      ), since as (
        select mine.whole_at, coalesce((select watched_since from watched), mine.watched_since) + ${GRACE} as early_until
        from mine
      )
      select whole_at <= now() - ? * interval '1 millisecond' or whole_at < early_until and early_until <= now() as "isWhole",
        early_until > now() as "isEarly"
      from since`,
    [everyMs / 2, hasJustStarted, startedAt, startedAt, wholeEveryMs],
  );
  // The statistics do not cover rows that a statement creates itself; without this, it scans all of them per row.
  if (rows[0] !== undefined) await tx.raw('set local enable_seqscan = off');
  return rows[0];
}

/** Records that the round is complete. */
export async function endRound(tx: Tx, { isWhole }: Locked): Promise<void> {
  await tx.raw(`update alert_rounds set through = now() ${isWhole ? ', whole_at = now()' : ''}`);
}

/** The numbers of alerts that were raised and resolved. */
export interface Changes {
  raised: number;
  resolved: number;
}

export const sum = (one: Changes, other: Changes): Changes => ({
  raised: one.raised + other.raised,
  resolved: one.resolved + other.resolved,
});

export async function evaluate(
  tx: Session,
  { isWhole, isEarly }: Locked,
  coverage: Coverage,
): Promise<Changes> {
  const run = (sql: string) => affected(tx, sql, coverage);
  let raised = 0;
  let resolved = await run(resolveOffline(isWhole, coverage));
  if (isWhole) for (const sql of resolveUnwatched(coverage)) resolved += await run(sql);
  if (!isEarly) raised += await inBatches(BATCH_SIZE, () => run(raiseOffline(isWhole, coverage)));
  await countEvents(tx, coverage);
  await matchServices(tx, isWhole, coverage);
  await confirmServices(tx, coverage);
  resolved += await inBatches(MATCHES_AT_ONCE, () => resolveOver(tx, isWhole, coverage));
  raised += await inBatches(MATCHES_AT_ONCE, () => raiseDue(tx, isWhole, coverage));
  await forgetEnded(tx, coverage);
  return { raised, resolved };
}

/** Alerts whose texts are composed at once. */
const MATCHES_AT_ONCE = 2000;

async function raiseDue(tx: Session, isWhole: boolean, coverage: Coverage): Promise<number> {
  const due = await dueAlerts(tx, { isWhole, atMost: MATCHES_AT_ONCE }, coverage);
  const alerts = due.flatMap(({ condition, rule, device, found, ...alert }) => {
    if (condition.kind === 'offline' || condition.kind === 'reported') return [];
    const { details, ...texts } = alertText(condition, { rule, device, found });
    return [{ ...alert, ...texts, details: { ...details, labels: found.map(({ label }) => label) } }];
  });
  return alerts.length === 0 ? 0 : raiseOfRules(tx, alerts);
}

async function resolveOver(tx: Session, isWhole: boolean, coverage: Coverage): Promise<number> {
  const over = await overAlerts(tx, { isWhole, atMost: MATCHES_AT_ONCE }, coverage);
  const ended = over.map((alert) => ({ id: alert.id, why: whyOver(alert) }));
  if (ended.length > 0) await endCauses(tx, ended);
  return over.length;
}

function whyOver({ isOutOfService, last }: OverAlert): string {
  if (isOutOfService) return 'The device is out of service.';
  const condition = last === null ? undefined : RuleCondition.safeParse(last.condition).data;
  switch (condition?.kind) {
    case 'metric':
      return last?.value === null || last === null
        ? 'The figure is not reported any more.'
        : clearedText(condition, last.label, last.value);
    case 'event':
      return 'No further events fit the rule.';
    case 'software':
      return condition.change === 'installed'
        ? 'The software was removed.'
        : 'The software is installed again.';
    case 'service':
      return last === null || last.state === null
        ? 'The service is not in that state any more.'
        : serviceClearedText(last.name ?? last.label, last.state);
    default:
      return 'No alert rule watches for this any more.';
  }
}

async function affected(tx: Session, sql: string, coverage: Coverage): Promise<number> {
  return (await tx.raw<{ rowCount: number }>(sql, coverageBindings(coverage))).rowCount;
}

/** @param size  of a whole batch, behind which there may be another */
async function inBatches(size: number, work: () => Promise<number>): Promise<number> {
  let total = 0;
  let count = size;
  while (count === size) {
    count = await work();
    total += count;
  }
  return total;
}

export async function organizationIds(tx: Session): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>('select id from organizations order by id');
  return rows.map(({ id }) => id);
}

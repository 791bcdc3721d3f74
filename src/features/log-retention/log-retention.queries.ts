import type { AgentContext } from '../../platform/context.ts';
import { lockForPruning } from '../../platform/db/retention-rule.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { LogRetention } from './log-retention.schema.ts';

/** The columns of the table `log_retention`, by the fields of the API. */
export const COLUMNS = {
  diagnosticDays: 'diagnostic_days',
  eventDays: 'event_days',
  commandDays: 'command_days',
  alertDays: 'alert_days',
  whenFull: 'when_full',
} as const satisfies Record<keyof LogRetention, string>;

export type DaysColumn = (typeof COLUMNS)[Exclude<keyof LogRetention, 'whenFull'>];

/** SQL for the days that the organization `o` of a `RetentionRule` has chosen; null if it has not. */
export const chosenDays = (column: DaysColumn): string =>
  `(select r.${column} from log_retention r where r.org_id = o.id)`;

/** SQL: whether the organization `o` has chosen fewer (`<`) or more (`>`) days. */
export const hasChosen = (column: DaysColumn, comparison: '<' | '>', days: number): string =>
  `exists (select from log_retention r where r.org_id = o.id and r.${column} ${comparison} ${days})`;

/** Organizations whose oldest logs are removed if their budget is spent. */
export async function organizationsRemovingOldest(tx: Tx): Promise<{ orgId: string; partnerId: string }[]> {
  const { rows } = await tx.raw<{ rows: { orgId: string; partnerId: string }[] }>(
    `select o.id as "orgId", o.partner_id as "partnerId" from log_retention r join organizations o on o.id = r.org_id
    where r.when_full = 'remove_oldest' and o.deleted_at is null order by o.id`,
  );
  return rows;
}

/**
 * Keeps the choice of an organization as it is until the transaction ends, so that nothing is removed after the answer
 * to a request that takes the choice back.
 * @returns the last arrival day whose removal has begun; `undefined` if the oldest logs are not to be removed
 */
export async function holdRemoval(tx: Tx, orgId: string): Promise<{ through: string | null } | undefined> {
  const { rows } = await tx.raw<{ rows: { through: string | null }[] }>(
    `select removing_through::text as through from log_retention
    where org_id = ? and when_full = 'remove_oldest' for no key update`,
    [orgId],
  );
  return rows[0];
}

/** Notes that the removal of the logs up to that arrival day begins; null: that it has ended. */
export async function noteRemoval(tx: Tx, orgId: string, through: string | null): Promise<void> {
  await tx.raw('update log_retention set removing_through = ?::date where org_id = ?', [
    through,
    orgId,
  ] as string[]);
}

/** For refusals: whether the organization of an agent chose that its oldest logs are removed. */
export async function removesOldest({ tx, agent }: AgentContext): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { removes: boolean }[] }>(
    `select when_full = 'remove_oldest' as removes from log_retention where org_id = ?`,
    [agent.orgId],
  );
  return rows[0]?.removes === true;
}

/** How many rows of a table one transaction removes. */
const AT_ONCE = 2500;

/**
 * Where a row of a table of logs lies, and the time that says in which partition to look: partitions have no index by id,
 * because nothing else asks for it.
 */
export const LOG_ROW = ['tableoid', 'ctid', 'created_at'] as const;

/** The logs of a device in that organization that arrived on that day (UTC) or earlier. */
export interface ArrivedLogs {
  orgId: string;
  deviceId: string;
  day: string;
}

/**
 * Removes some of them from a table of logs, the oldest by the clock of the device first: those are mostly the ones that
 * arrived first.
 * @returns how many, and whether there may be more
 */
export async function removeArrived(
  tx: Tx,
  table: 'event_logs' | 'diagnostic_logs',
  { orgId, deviceId, day }: ArrivedLogs,
): Promise<{ removed: number; mayHaveMore: boolean }> {
  await lockForPruning(tx, table);
  const key = LOG_ROW.join(', ');
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `delete from ${table} where (${key}) in (
      select ${key} from ${table} where org_id = ? and device_id = ?
        and created_at < (?::date + 1)::timestamp at time zone 'utc' order by "timestamp", id limit ${AT_ONCE})`,
    [orgId, deviceId, day],
  );
  return { removed: rowCount, mayHaveMore: rowCount === AT_ONCE };
}

import type { Tx } from './transaction.ts';

/**
 * What ends the rows of a table. Each feature declares this for every table that it owns, and
 * test/contract/retention-policies.test.ts compares the declarations with the database catalogue.
 *
 * - `cascade`: a foreign key removes them together with the row that they belong to.
 * - `bounded`: their number is limited, or they are the product's subject; `because` says which.
 * - `retention`: they are removed after some days, by the rule, or by a worker of the feature's own.
 */
export type RetentionPolicy =
  | { table: string; ends: 'cascade'; with: string }
  | { table: string; ends: 'bounded'; because: string }
  | { table: string; ends: 'retention'; rule: RetentionRule }
  | { table: string; ends: 'retention'; worker: string };

export const cascade = (table: string, parent: string): RetentionPolicy => ({
  table,
  ends: 'cascade',
  with: parent,
});
export const bounded = (table: string, because: string): RetentionPolicy => ({
  table,
  ends: 'bounded',
  because,
});
export const byRules = (rules: readonly RetentionRule[]): RetentionPolicy[] =>
  rules.map((rule) => ({ table: rule.table, ends: 'retention', rule }));

/** Which rows of a table are removed by age. `RowPruner` carries it out. */
export interface RetentionRule {
  table: string;
  /** The columns that identify a row: mostly the primary key. */
  key: readonly string[];
  /** For how many days rows are kept, unless an organization has chosen otherwise. */
  days: number;
  /** SQL: whether the row `old` is past its time. `days` is SQL as well. */
  isOver(days: string): string;
  /** SQL behind `from`, for rows that are found by way of another table. The row itself is `old`. */
  from?: string;
  /** Rows that a tenant makes are removed organization by organization, so that none holds the others up. */
  organization?: {
    /** SQL: whose the row is. Default: `old.org_id`. */
    column?: string;
    /** SQL: the days that the organization `o` has chosen; null if it has not. */
    chosenDays?: string;
    /** SQL: whether `o` may have such rows, if it would take long to look for one. */
    candidate?: string;
  };
  /** How many rows one transaction removes; fewer if other rows go with each. */
  atOnce?: number;
}

/** For links, challenges and offers, which are of no use from the minute in which they expire. */
export const expiredRows = (table: string, key: string, days = 1): RetentionRule => ({
  table,
  key: [key],
  days,
  isOver: (sqlDays) => `old.expires_at < now() - make_interval(days => ${sqlDays})`,
});

const AT_ONCE = 5000;
export const batchSize = (rule: RetentionRule): number => rule.atOnce ?? AT_ONCE;

const source = ({ from, table }: RetentionRule) => from ?? `${table} old`;
const columnOf = ({ organization }: RetentionRule) => organization?.column ?? 'old.org_id';

/** SQL: the keys of some expired rows. If the rule goes by organization, the only binding is the id of one. */
export function overdueRows(rule: RetentionRule, days: number): string {
  const ofOrganization = rule.organization === undefined ? '' : `${columnOf(rule)} = ? and `;
  return `select ${rule.key.map((column) => `old.${column}`).join(', ')} from ${source(rule)}
    where ${ofOrganization}${rule.isOver(String(days))} limit ${batchSize(rule)}`;
}

/** SQL: removes those rows. */
export const removeOverdueRows = (rule: RetentionRule, days: number): string =>
  `delete from ${rule.table} where (${rule.key.join(', ')}) in (${overdueRows(rule, days)})`;

/** SQL: the organizations that have expired rows, with the number of days for which each keeps them. */
export function overdueOrganizations(rule: RetentionRule): string {
  const { chosenDays = 'null', candidate } = rule.organization ?? {};
  const hasSome = `exists (select from ${source(rule)} where ${columnOf(rule)} = o.id and ${rule.isOver('kept.days')})`;
  return `select o.id, kept.days from organizations o
    cross join lateral (select coalesce(${chosenDays}, ${rule.days})::int as days) kept
    where ${candidate ?? hasSome} order by o.id`;
}

/**
 * Waits until no other transaction removes rows of that table in batches: two that remove the same rows in different
 * orders would block each other for ever.
 */
export async function lockForPruning(tx: Tx, table: string): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('prune ' || ?, 0))`, [table]);
}

export async function findOverdueOrganizations(
  tx: Tx,
  rule: RetentionRule,
): Promise<{ id: string; days: number }[]> {
  const { rows } = await tx.raw<{ rows: { id: string; days: number }[] }>(overdueOrganizations(rule));
  return rows;
}

/** Removes one batch of expired rows and returns how many they were. */
export async function removeOverdue(
  tx: Tx,
  rule: RetentionRule,
  { orgId, days }: { orgId: string | undefined; days: number },
): Promise<number> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    removeOverdueRows(rule, days),
    orgId === undefined ? [] : [orgId],
  );
  return rowCount;
}

import { snakeCaseMappers } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { Counted } from '../trend-part.ts';
import { type Figure, FIGURES } from './parts.ts';

/** A day of UTC, such as 2026-11-29. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

const FIGURE_NAMES = Object.keys(FIGURES) as Figure[];
const columnNames = snakeCaseMappers();
const columnOf = (figure: Figure): string => Object.keys(columnNames.format({ [figure]: null }))[0] ?? figure;
const COLUMNS = FIGURE_NAMES.map(columnOf);

/** SQL: what stays of a figure if the organization was counted on that day before. */
const keptSql = (figure: Figure): string => {
  const column = columnOf(figure);
  return FIGURES[figure] === 'last' ? `excluded.${column}` : `greatest(d.${column}, excluded.${column})`;
};

const bindings = (day: string, rows: readonly Counted<Figure>[]) => [
  day,
  rows.map(({ orgId }) => orgId),
  ...FIGURE_NAMES.map((figure) => rows.map((row) => row[figure])),
];

const ROWS = `unnest(?::uuid[], ${COLUMNS.map(() => '?::integer[]').join(', ')}) as c (org_id, ${COLUMNS.join(', ')})`;

/**
 * Stores what was counted today.
 * @param day  such as 2026-11-29
 */
export async function putCounts(tx: Tx, day: string, rows: readonly Counted<Figure>[]): Promise<void> {
  await tx.raw(
    // Organizations that were deleted since they were counted are left out.
    `insert into fleet_days as d (day, org_id, ${COLUMNS.join(', ')})
    select ?::date, o.id, ${COLUMNS.map((column) => `c.${column}`).join(', ')}
    from ${ROWS} join organizations o on o.id = c.org_id
    order by o.id
    on conflict (org_id, day) do update set counted_at = now(),
      ${FIGURE_NAMES.map((figure) => `${columnOf(figure)} = ${keptSql(figure)}`).join(', ')}`,
    bindings(day, rows),
  );
}

/** The organizations that were counted on these days, of which nothing may be left to count. */
export async function countedSince(tx: Tx, first: string, last: string): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { org_id: string }[] }>(
    `select distinct f.org_id from fleet_days f join organizations o on o.id = f.org_id and o.deleted_at is null
    where f.day between ?::date and ?::date`,
    [first, last],
  );
  return rows.map((row) => row.org_id);
}

/** Adds to a day that is over what happened after its last count. */
export async function raiseCounts(tx: Tx, day: string, rows: readonly Counted<Figure>[]): Promise<void> {
  const raised = FIGURE_NAMES.filter((figure) => FIGURES[figure] === 'during').map(columnOf);
  await tx.raw(
    `update fleet_days d set ${raised.map((column) => `${column} = greatest(d.${column}, c.${column})`).join(', ')}
    from (select ?::date as day, c.* from ${ROWS}) c where d.org_id = c.org_id and d.day = c.day`,
    bindings(day, rows),
  );
}

export type DaySums = { day: string; countedAt: Date } & Record<Figure, number>;

/** The sums over all organizations that the caller may see, or over one of them, of each day that was counted. */
export async function sumsByDay(
  { tx, caller }: Pick<Context, 'tx' | 'caller'>,
  { orgId, from }: { orgId: string | undefined; from: string },
): Promise<DaySums[]> {
  const sums = FIGURE_NAMES.map((figure) => `sum(d.${columnOf(figure)})::integer as "${figure}"`);
  const { rows } = await tx.raw<{ rows: DaySums[] }>(
    `select to_char(d.day, 'YYYY-MM-DD') as day, max(d.counted_at) as "countedAt", ${sums.join(', ')} from fleet_days d
    where ${inTenant(caller, 'd.org_id')} and (cast(:orgId as uuid) is null or d.org_id = cast(:orgId as uuid))
      and d.day >= cast(:from as date)
    group by d.day order by d.day`,
    { orgId: orgId ?? null, from },
  );
  return rows;
}

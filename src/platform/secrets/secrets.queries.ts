import type { Tx } from '../db/transaction.ts';

/** A column that holds sealed secrets, and the one that names the row in its seal. */
export interface SealedColumn {
  table: string;
  column: string;
  id: string;
}

interface SealedRow {
  id: string;
  sealed: string;
}

/**
 * Locks the next sealed values of a column, in the order of their ids. The id is compared in its own type: it is a UUID or
 * a hash.
 */
export async function lockNextSealed(
  tx: Tx,
  { table, column, id }: SealedColumn,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<SealedRow[]> {
  const rest = after === undefined ? 'true' : '?? > ?';
  const { rows } = await tx.raw<{ rows: SealedRow[] }>(
    `select ??::text as id, ?? as sealed from ?? where ?? is not null and ${rest} order by ?? limit ? for update`,
    [id, column, table, column, ...(after === undefined ? [] : [id, after]), id, limit],
  );
  return rows;
}

/** The newest sealed values of a column. */
export async function newestSealed(
  tx: Tx,
  { table, column, id }: SealedColumn,
  limit: number,
): Promise<SealedRow[]> {
  const { rows } = await tx.raw<{ rows: SealedRow[] }>(
    'select ??::text as id, ?? as sealed from ?? where ?? is not null order by ?? desc limit ?',
    [id, column, table, column, id, limit],
  );
  return rows;
}

/** One sealed value of each column that has any. `context` is the table and the column. */
export async function oneSealedOfEach(
  tx: Tx,
  columns: readonly SealedColumn[],
): Promise<(SealedRow & { context: string })[]> {
  const one = `(select ?::text as context, ??::text as id, ?? as sealed from ?? where ?? is not null limit 1)`;
  const { rows } = await tx.raw<{ rows: (SealedRow & { context: string })[] }>(
    columns.map(() => one).join(' union all '),
    columns.flatMap(({ table, column, id }) => [`${table} ${column}`, id, column, table, column]),
  );
  return rows;
}

/** The time of the statement. That of the transaction may lie before a lock for which it has waited. */
export const statementTime = (tx: Tx): ReturnType<Tx['raw']> => tx.raw('clock_timestamp()');

import type { Db } from '../db/pool.ts';
import { withSystem } from '../db/transaction.ts';
import { SealBrokenError, sealContext, type Sealer } from './sealed.ts';

/** A column that holds sealed secrets, and the one that names the row in its seal. */
export interface SealedColumn {
  table: string;
  column: string;
  id: string;
}

export interface ResealCount {
  /** All sealed values of the column. */
  seen: number;
  /** Those that were under an old key, and now are under the newest. */
  resealed: number;
}

const BATCH = 200;

/** Seals every value of a column with the newest key. Values that change at the same time are skipped: the change has sealed them already. */
export async function resealColumn(
  db: Db,
  sealer: Sealer,
  { table, column, id }: SealedColumn,
): Promise<ResealCount> {
  const count: ResealCount = { seen: 0, resealed: 0 };
  let after: string | undefined;
  for (;;) {
    const rows = await withSystem(db, 'seal secrets with the newest key', async (tx) => {
      // The column is compared in its own type: it is an id, or a hash.
      const rest = after === undefined ? 'true' : '?? > ?';
      const { rows: batch } = await tx.raw(
        `select ??::text as id, ?? as sealed from ?? where ?? is not null and ${rest}
        order by ?? limit ${BATCH} for update`,
        [id, column, table, column, ...(after === undefined ? [] : [id, after]), id],
      );
      const found = batch as { id: string; sealed: string }[];
      for (const row of found) {
        if (!sealer.isStale(row.sealed)) continue;
        const context = sealContext(table, column, row.id);
        const { text } = sealer.open(row.sealed, context);
        await tx(table).where(id, row.id).update(column, sealer.seal(text, context));
        count.resealed++;
      }
      return found;
    });
    count.seen += rows.length;
    after = rows.at(-1)?.id;
    if (rows.length < BATCH) return count;
  }
}

/** More would prove no more: a wrong key opens none. */
const SOME = 5;

/** Opens the last values of a column, to learn if the keys fit. Throws `SealBrokenError`. */
export async function openSome(
  db: Db,
  sealer: Sealer,
  { table, column, id }: SealedColumn,
): Promise<{ opened: number; stale: number }> {
  const rows = await withSystem(db, 'open some secrets', async (tx) => {
    const { rows: found } = await tx.raw(
      `select ??::text as id, ?? as sealed from ?? where ?? is not null order by ?? desc limit ${SOME}`,
      [id, column, table, column, id],
    );
    return found as { id: string; sealed: string }[];
  });
  const opened = rows.map((row) => sealer.open(row.sealed, sealContext(table, column, row.id)));
  return { opened: opened.length, stale: opened.filter(({ stale }) => stale).length };
}

/**
 * Opens one value of each column, to refuse a start with a key that is not that of the database: what it sealed from then
 * on would be under another key than everything else. Throws `SealBrokenError` where some values are there and none opens;
 * answers what does not open where others do.
 */
export async function assertSecretsOpen(
  db: Db,
  sealer: Sealer,
  columns: readonly SealedColumn[],
): Promise<{ broken: string[] }> {
  const one = `(select ?::text as context, ??::text as id, ?? as sealed from ?? where ?? is not null limit 1)`;
  const rows = await withSystem(db, 'find out if the keys fit', async (tx) => {
    const { rows: found } = await tx.raw(
      columns.map(() => one).join(' union all '),
      columns.flatMap(({ table, column, id }) => [`${table} ${column}`, id, column, table, column]),
    );
    return found as { context: string; id: string; sealed: string }[];
  });
  const faults: SealBrokenError[] = [];
  for (const { context, id, sealed } of rows) {
    const [table = '', column = ''] = context.split(' ');
    try {
      sealer.open(sealed, sealContext(table, column, id));
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error;
      faults.push(error);
    }
  }
  const [first] = faults;
  if (first !== undefined && faults.length === rows.length) throw first;
  return { broken: faults.map(({ message }) => message) };
}

import { lockNextSealed, newestSealed, oneSealedOfEach, type SealedColumn } from './secrets.queries.ts';
import type { Db } from '../db/pool.ts';
import { withSystem } from '../db/transaction.ts';
import { SealBrokenError, sealContext, type Encryptor } from './sealed.ts';

export interface ResealCount {
  /** All sealed values of the column. */
  seen: number;
  /** The number of values that were under an old key and now are under the newest. */
  resealed: number;
}

const BATCH = 200;

/** Seals every value of a column with the newest key. Values that change at the same time are skipped: the change has sealed them already. */
export async function resealColumn(
  db: Db,
  encryptor: Encryptor,
  { table, column, id }: SealedColumn,
): Promise<ResealCount> {
  const count: ResealCount = { seen: 0, resealed: 0 };
  let after: string | undefined;
  for (;;) {
    const rows = await withSystem(db, 'seal secrets with the newest key', async (tx) => {
      const found = await lockNextSealed(tx, { table, column, id }, { after, limit: BATCH });
      for (const row of found) {
        if (!encryptor.isStale(row.sealed)) continue;
        const context = sealContext(table, column, row.id);
        const { text } = encryptor.open(row.sealed, context);
        await tx(table).where(id, row.id).update(column, encryptor.seal(text, context));
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
  encryptor: Encryptor,
  { table, column, id }: SealedColumn,
): Promise<{ opened: number; stale: number }> {
  const rows = await withSystem(db, 'open some secrets', (tx) =>
    newestSealed(tx, { table, column, id }, SOME),
  );
  const opened = rows.map((row) => encryptor.open(row.sealed, sealContext(table, column, row.id)));
  return { opened: opened.length, stale: opened.filter(({ stale }) => stale).length };
}

/**
 * Opens one value of each column, to refuse a start with a key that is not that of the database: what it sealed from then
 * on would be under another key than everything else. Throws `SealBrokenError` if some values are there and none opens;
 * returns the values that do not open if others do.
 */
export async function assertSecretsOpen(
  db: Db,
  encryptor: Encryptor,
  columns: readonly SealedColumn[],
): Promise<{ broken: string[] }> {
  const rows = await withSystem(db, 'find out if the keys fit', (tx) => oneSealedOfEach(tx, columns));
  const faults: SealBrokenError[] = [];
  for (const { context, id, sealed } of rows) {
    const [table = '', column = ''] = context.split(' ');
    try {
      encryptor.open(sealed, sealContext(table, column, id));
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error;
      faults.push(error);
    }
  }
  const [first] = faults;
  if (first !== undefined && faults.length === rows.length) throw first;
  return { broken: faults.map(({ message }) => message) };
}

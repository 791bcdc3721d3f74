import { withSystem } from '../../src/platform/db/transaction.ts';
import { eventually } from './eventually.ts';
import type { TestApp } from './test-app.ts';
import { asOwner } from './test-postgres.ts';

/**
 * Begins changes of one row, each when the one before it waits, behind a transaction that is just changing that row; and
 * while a record that refers to the row has been added by a transaction that ends last. So they deadlock if one of them
 * locks the row and changes it in the same statement.
 * @param column  one to which no other table refers
 */
export async function meetAtRow<T>(
  app: TestApp,
  { table, id, column }: { table: string; id: string; column: string },
  changes: readonly (() => Promise<T>)[],
): Promise<T[]> {
  const { pool } = app.server.database;
  const begun: Promise<T>[] = [];
  return withSystem(pool, 'a record that refers to the row', async (record) => {
    await record.raw('select 1 from ?? where id = ? for key share', [table, id]);
    await withSystem(pool, 'a change of the row', async (tx) => {
      await tx.raw('update ?? set ?? = ?? where id = ?', [table, column, column, id]);
      for (const change of changes) {
        begun.push(change());
        await untilWaiting(app, begun.length);
      }
    });
    return Promise.all(begun);
  });
}

/** Until so many statements wait for locks in the database of the app. */
async function untilWaiting(app: TestApp, count: number): Promise<void> {
  await eventually(
    () =>
      asOwner<{ count: number }>(
        app.database.ownerUrl,
        `select count(*)::int from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      ),
    ([row]) => row?.count === count,
  );
}

import type pg from 'pg';
import type { Db } from './pool.ts';
import { send, type Statement } from './statement.ts';
import type { Tx } from './transaction.ts';

/**
 * Runs it as it stands, past Knex: for the few statements that are run so often that building them counts. In a
 * transaction it sees what the transaction sees; on the pool, without a tenant, nothing but what it is let at by a
 * function of the database.
 */
export async function runPrepared<Row extends object>(
  on: Db | Tx,
  statement: Statement,
  values: readonly unknown[],
): Promise<Row[]> {
  // The connection may already serve another tenant.
  if (on.isTransaction === true && 'isCompleted' in on && on.isCompleted()) {
    throw new Error(`the transaction was over before ${statement.name}`);
  }
  const connection = (await on.client.acquireConnection()) as pg.Client;
  try {
    return (await send<Row>(connection, { ...statement, values: [...values] })).rows;
  } finally {
    await on.client.releaseConnection(connection);
  }
}

import type pg from 'pg';
import type { Db } from './pool.ts';
import type { Tx } from './transaction.ts';

/** A statement that Postgres parses and plans once a connection. Its parameters are $1, $2, and so on. */
export interface Statement {
  name: string;
  text: string;
}

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
    return (await connection.query<Row>({ ...statement, values: [...values] })).rows;
  } finally {
    await on.client.releaseConnection(connection);
  }
}

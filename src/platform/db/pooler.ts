import type { Knex } from 'knex';
import pg from 'pg';
import { connectToPrimary } from './primary.ts';

/**
 * Connection poolers such as PgBouncer. In transaction mode each transaction may run in another session of Postgres, so
 * nothing of a session can be relied on: prepared statements, settings, session locks, LISTEN.
 */

const throughPooler = new WeakSet<pg.ClientBase>();

/** Marks a connection whose transactions may run in different sessions. */
export const markThroughPooler = (connection: pg.ClientBase) => throughPooler.add(connection);
export const goesThroughPooler = (connection: pg.ClientBase) => throughPooler.has(connection);

/** The variables that lead to the database. */
export type DatabaseVariable =
  | 'DATABASE_URL'
  | 'DATABASE_URL_APP'
  | 'DATABASE_URL_SESSION'
  | 'AUDIT_ADMIN_DATABASE_URL';

const REMEDY: Record<DatabaseVariable, string> = {
  DATABASE_URL:
    'Migrations hold a lock in their session: let DATABASE_URL lead to Postgres itself, DATABASE_URL_APP to the pooler, and DATABASE_URL_SESSION, with the role of DATABASE_URL_APP, to Postgres itself.',
  DATABASE_URL_APP:
    'Set DATABASE_URL_SESSION to the same role and database at Postgres itself, for the connections that listen; all others then use the pooler.',
  DATABASE_URL_SESSION: 'Let it lead to Postgres itself, or to a pool in session mode.',
  AUDIT_ADMIN_DATABASE_URL: 'Let it lead to Postgres itself: pruning holds a lock in its session.',
};

/** An address that has to keep its session leads to a pooler that does not. */
export class PooledDatabaseError extends Error {
  constructor(variable: DatabaseVariable) {
    super(`${variable} leads to a connection pooler in transaction mode. ${REMEDY[variable]}`);
    this.name = 'PooledDatabaseError';
  }
}

/** Throws a `PooledDatabaseError` if the address does not keep one session of Postgres for each connection. */
export async function assertKeepsSession(url: string, variable: DatabaseVariable): Promise<void> {
  if (await isTransactionPooler(url)) throw new PooledDatabaseError(variable);
}

/** As `assertKeepsSession`, for an open pool to that address: a look is enough if it leads to Postgres itself. */
export async function assertPoolKeepsSession(
  pool: Knex,
  url: string,
  variable: DatabaseVariable,
): Promise<void> {
  try {
    const connection = (await pool.client.acquireConnection()) as pg.Client;
    try {
      if (await isDirect(connection)) return;
    } finally {
      await pool.client.releaseConnection(connection);
    }
  } catch (error) {
    if (refusesSettings(error)) throw new PooledDatabaseError(variable);
    throw error;
  }
  await assertKeepsSession(url, variable);
}

/** PgBouncer refuses connections that bring settings, unless its own configuration lets it ignore them. */
const refusesSettings = (error: unknown) =>
  error instanceof pg.DatabaseError &&
  error.code === '08P01' &&
  error.message.startsWith('unsupported startup parameter');

/** How often it is tried to catch a pooler: other servers may use the session that a probe has given back. */
const PROBES = 5;

async function isTransactionPooler(url: string): Promise<boolean> {
  const opened: pg.Client[] = [];
  const connect = async () => {
    const client = await connectToPrimary(url, { application_name: 'muster-pooler-probe' });
    opened.push(client);
    return client;
  };
  try {
    const first = await connect();
    if (await isDirect(first)) return false;
    const second = await connect();
    for (let tries = 0; tries < PROBES; tries += 1) {
      const own = await sessionOf(first);
      // Holds one session. A pooler in transaction mode gives it the one that is free, or the first gets another.
      await second.query('begin');
      const isShared = (await sessionOf(second)) === own || (await sessionOf(first)) !== own;
      await second.query('commit');
      if (isShared) return true;
    }
    return false;
  } finally {
    await Promise.all(opened.map((client) => client.end().catch(() => undefined)));
  }
}

/** Poolers tell the driver a process id of their own making. */
const isDirect = async (client: pg.Client) =>
  (await sessionOf(client)) === (client as pg.Client & { processID: number | null }).processID;

async function sessionOf(client: pg.ClientBase): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid;
}

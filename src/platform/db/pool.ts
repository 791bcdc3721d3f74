import knexModule, { type Knex } from 'knex';
import type pg from 'pg';
import { CONNECT_MS, ConnectionWatch } from './connection-watch.ts';
import { markThroughPooler } from './pooler.ts';

/** A pool of connections. Only `withTenant` and `withSystem` query through it. */
export type Db = Knex;
export type Query<Row = object> = Knex.QueryBuilder<object, Row[]>;

/** Knex would write to the console what it also throws. */
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} };

/** After this time without traffic the system asks whether the other end is still there. */
const KEEP_ALIVE_MS = 10_000;

/** A stuck statement must not hold a connection for ever, nor an idle transaction a lock. */
const LIMITS = { statement_timeout: '30s', lock_timeout: '10s', idle_in_transaction_session_timeout: '30s' };
const SESSION_LIMITS = Object.entries(LIMITS)
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');
/** SQL: the same limits for one transaction. */
export const TRANSACTION_LIMITS = Object.entries(LIMITS)
  .map(([name, value]) => `set local ${name} = '${value}'`)
  .join('; ');

interface PoolOptions {
  max: number;
  name: string;
  acquireMs?: number;
  /** For tests: after which silence of the server a connection is looked into (default 4 s). */
  silentMs?: number;
  /** The address leads to a pooler in transaction mode: no connection keeps a session. */
  throughPooler?: boolean;
}

/** Opens a pool. Connections are made when first needed; a caller waits `acquireMs` for one at most. */
export function openPool(url: string, options: PoolOptions): Knex {
  return knexModule.knex({
    client: 'pg',
    log: SILENT,
    connection: {
      ...connectionSettings(url, options.name),
      // Through a pooler, which refuses settings, each transaction brings the limits.
      ...(options.throughPooler === true ? {} : { options: SESSION_LIMITS }),
    },
    pool: { min: 0, max: options.max, ...watching(url, options) },
    acquireConnectionTimeout: options.acquireMs ?? 10_000,
  });
}

/** In use, idle and waiting, for the metrics. */
export function poolState(db: Knex): { used: number; free: number; waiting: number } {
  const pool = db.client.pool as { numUsed(): number; numFree(): number; numPendingAcquires(): number };
  return { used: pool.numUsed(), free: pool.numFree(), waiting: pool.numPendingAcquires() };
}

/** A single connection that stays open until it is destroyed: for the steps around start. */
export function openSession(url: string, name: string, { silentMs }: { silentMs?: number } = {}): Knex {
  return knexModule.knex({
    client: 'pg',
    log: SILENT,
    connection: connectionSettings(url, name),
    // Never reaped while idle: a session lock would go with it.
    pool: { min: 1, max: 1, ...watching(url, { silentMs }) },
  });
}

const connectionSettings = (url: string, name: string) => ({
  connectionString: url,
  application_name: name,
  connectionTimeoutMillis: CONNECT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
});

function watching(
  url: string,
  { silentMs, throughPooler }: { silentMs?: number | undefined; throughPooler?: boolean },
) {
  const watch = new ConnectionWatch(url, silentMs);
  return {
    afterCreate(connection: pg.Client, done: (error: Error | null, connection: pg.Client) => void) {
      watch.add(connection);
      if (throughPooler === true) markThroughPooler(connection);
      done(null, connection);
    },
  };
}

export async function answersQueries(pool: Db): Promise<boolean> {
  return (await pool.raw('select 1 as up')).rows.length === 1;
}

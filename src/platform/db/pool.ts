import knexModule, { type Knex } from 'knex';
import type pg from 'pg';
import { ConnectionWatch } from './connection-watch.ts';
import { isReadOnlyDatabase } from './database-errors.ts';
import { markThroughPooler } from './pooler.ts';
import { CONNECT_MS, Primary } from './primary.ts';

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
  const { silentMs, throughPooler = false } = options;
  const db = knexModule.knex({
    client: 'pg',
    log: SILENT,
    // Without any, Knex makes no pool. Which they are is decided when a connection is made.
    connection: {},
    pool: { min: 0, max: options.max },
    acquireConnectionTimeout: options.acquireMs ?? 10_000,
  });
  connectToPrimary(db, url, {
    silentMs,
    throughPooler,
    settings: {
      ...connectionSettings(options.name),
      // Through a pooler, which refuses settings, each transaction brings the limits.
      ...(throughPooler ? {} : { options: SESSION_LIMITS }),
    },
  });
  return db;
}

/** In use, idle and waiting, for the metrics. */
export function poolState(db: Knex): { used: number; free: number; waiting: number } {
  const pool = db.client.pool as { numUsed(): number; numFree(): number; numPendingAcquires(): number };
  return { used: pool.numUsed(), free: pool.numFree(), waiting: pool.numPendingAcquires() };
}

/** A single connection that stays open until it is destroyed: for the steps around start. */
export function openSession(url: string, name: string, { silentMs }: { silentMs?: number } = {}): Knex {
  const db = knexModule.knex({
    client: 'pg',
    log: SILENT,
    // Without any, Knex makes no pool. Which they are is decided when a connection is made.
    connection: {},
    // Never reaped while idle: a session lock would go with it.
    pool: { min: 1, max: 1 },
  });
  connectToPrimary(db, url, { silentMs, throughPooler: false, settings: connectionSettings(name) });
  return db;
}

const connectionSettings = (name: string) => ({
  application_name: name,
  connectionTimeoutMillis: CONNECT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
});

/** The parts of Knex's client that its types leave out: how a pool makes a connection, and with which settings. */
interface ConnectingClient {
  acquireRawConnection(): Promise<pg.Client>;
  connectionSettings: pg.ClientConfig;
}

function connectToPrimary(
  db: Knex,
  url: string,
  parts: { silentMs: number | undefined; throughPooler: boolean; settings: pg.ClientConfig },
): void {
  const client = db.client as ConnectingClient;
  const connect = client.acquireRawConnection.bind(client);
  const primary = new Primary(url, parts.throughPooler);
  const watch = new ConnectionWatch(parts.silentMs, () => primary.doubt());
  client.acquireRawConnection = () =>
    primary.connect(async (connectionString) => {
      // Read by the call that follows before anything else can run.
      client.connectionSettings = { ...parts.settings, connectionString };
      const connection = await connect();
      watch.add(connection, connectionString);
      if (parts.throughPooler) markThroughPooler(connection);
      return connection;
    });
}

/** Whether the database can be written to, for readiness. */
export async function writeState(pool: Db): Promise<'ok' | 'read_only'> {
  try {
    const { rows } = await pool.raw(`select current_setting('transaction_read_only') as state`);
    return rows[0]?.state === 'off' ? 'ok' : 'read_only';
  } catch (error) {
    // A server that takes no writes is refused when a connection is made.
    if (isReadOnlyDatabase(error)) return 'read_only';
    throw error;
  }
}

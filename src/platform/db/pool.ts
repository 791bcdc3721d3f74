import knexModule, { type Knex } from 'knex';

/** A pool of connections. Only `withTenant` and `withSystem` query through it. */
export type Db = Knex;
export type Query<Row = object> = Knex.QueryBuilder<object, Row[]>;

/** Knex would write to the console what it also throws. */
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} };

/** Opens a pool. Connections are made when first needed; nobody waits more than `acquireMs` for one. */
export function openPool(url: string, options: { max: number; name: string; acquireMs?: number }): Knex {
  return knexModule.knex({
    client: 'pg',
    log: SILENT,
    connection: {
      connectionString: url,
      application_name: options.name,
      // A stuck statement must not hold a connection for ever, nor an idle transaction a lock.
      options: '-c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s',
    },
    pool: { min: 0, max: options.max },
    acquireConnectionTimeout: options.acquireMs ?? 10_000,
  });
}

/** In use, idle and waiting, for the metrics. */
export function poolState(db: Knex): { used: number; free: number; waiting: number } {
  const pool = db.client.pool as { numUsed(): number; numFree(): number; numPendingAcquires(): number };
  return { used: pool.numUsed(), free: pool.numFree(), waiting: pool.numPendingAcquires() };
}

/** A single connection that stays open until it is destroyed: for the steps around start. */
export function openSession(url: string, name: string): Knex {
  return knexModule.knex({
    client: 'pg',
    log: SILENT,
    connection: { connectionString: url, application_name: name },
    // Never reaped while idle: a session lock would go with it.
    pool: { min: 1, max: 1 },
  });
}

import type { Database } from '../platform/db/database.ts';
import { poolState } from '../platform/db/pool.ts';
import type { ExpensiveWork } from '../platform/expensive-work.ts';
import type { Metrics } from '../platform/metrics.ts';

/** What each pool is for, by the name of its metric. */
const POOLS = {
  connections: { pool: 'pool', use: 'requests' },
  hub_connections: { pool: 'hubPool', use: 'the live side' },
  job_connections: { pool: 'jobPool', use: 'background jobs' },
  queue_connections: { pool: 'queuePool', use: 'the queue of background jobs' },
  store_connections: { pool: 'storePool', use: 'the backup store' },
} as const;

export function databaseGauges(metrics: Metrics, database: Database): void {
  for (const [name, { pool, use }] of Object.entries(POOLS)) {
    metrics.labelledGauge(
      `muster_database_${name}`,
      `Connections of the pool for ${use}, by state.`,
      'state',
      () => poolState(database[pool]),
    );
  }
}

export function expensiveWorkGauge(metrics: Metrics, work: ExpensiveWork): void {
  metrics.labelledGauge(
    'muster_expensive_requests',
    'Expensive requests that are waiting for their turn, and those refused since the start.',
    'state',
    () => work.state,
  );
}

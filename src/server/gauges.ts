import type { Database } from '../platform/db/database.ts';
import { poolState } from '../platform/db/pool.ts';
import type { ExpensiveWork } from '../platform/expensive-work.ts';
import type { Metrics } from '../platform/metrics.ts';

export function databaseGauges(metrics: Metrics, { pool, hubPool }: Database): void {
  metrics.labelledGauge(
    'muster_database_connections',
    'Connections of the pool for requests, by state.',
    'state',
    () => poolState(pool),
  );
  metrics.labelledGauge(
    'muster_database_hub_connections',
    'Connections of the pool for the live side, by state.',
    'state',
    () => poolState(hubPool),
  );
}

export function expensiveWorkGauge(metrics: Metrics, work: ExpensiveWork): void {
  metrics.labelledGauge(
    'muster_expensive_requests',
    'Expensive requests that are waiting for their turn, and those refused since the start.',
    'state',
    () => work.state,
  );
}

import type { DeviceHub, LogReads } from '../../hub/index.ts';
import { byRules, type RetentionRule } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { chosenDays, DEFAULT_EVENT_DAYS } from '../log-retention/index.ts';
import { liveLogs } from './live-logs.service.ts';
import { endLogsRegularly } from './end-logs.job.ts';
import { diagnosticLogRoutes, liveLogRoutes, storedLogRoutes } from './log.routes.ts';
import { makeRoomRegularly } from './make-room.job.ts';

export { LogReadRecorder } from './live-logs.service.ts';
export { LogBudgets } from './log-budgets.ts';
export { LogPartitions } from './log-partitions.ts';
export { ConditionTimes } from './log.schema.ts';

/** A day counts in the total for as long as its events are kept. */
const storedDaysRetention: RetentionRule = {
  table: 'stored_log_days',
  key: ['device_id', 'day'],
  days: DEFAULT_EVENT_DAYS,
  isOver: (days) => `old.day < (now() at time zone 'utc')::date - ${days}::int`,
  organization: { chosenDays: chosenDays('event_days') },
};

/** Whole partitions are dropped. */
const byPartition = (table: string) =>
  ({ table, ends: 'retention', worker: 'the background job logs.end' }) as const;

/**
 * The logs of devices: live queries of the machine's logs, stored events, and the agent's own log. Budgets limit what
 * is stored; organizations choose whether new logs are refused or the oldest ones removed when a budget is spent.
 */
export const feature = defineFeature({
  name: 'logs',
  routes: ({
    hub,
    logReads,
    reads,
    logBudgets,
    logPartitions,
  }: Parameters<typeof storedLogRoutes>[0] & { hub: DeviceHub; logReads: LogReads }) => [
    liveLogRoutes({ logs: liveLogs({ hub, reads: logReads }) }),
    storedLogRoutes({ reads, logBudgets, logPartitions }),
    diagnosticLogRoutes({ reads, logBudgets, logPartitions }),
  ],
  jobs: (parts: Parameters<typeof makeRoomRegularly>[0]) => {
    makeRoomRegularly(parts);
    endLogsRegularly(parts);
  },
  tables: [byPartition('event_logs'), byPartition('diagnostic_logs'), ...byRules([storedDaysRetention])],
});

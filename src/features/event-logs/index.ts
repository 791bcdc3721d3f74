import type { DeviceHub, LogReads } from '../../hub/index.ts';
import { byRules } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { liveLogRoutes } from './live-logs.routes.ts';
import { liveLogs } from './live-logs.service.ts';
import { eventLogRetention } from './retention.ts';
import { storedLogRoutes } from './stored-logs.routes.ts';

export { LogReadRecorder } from './log-reads.ts';

export const feature = defineFeature({
  name: 'event-logs',
  routes: ({
    hub,
    logReads,
    reads,
    logBudgets,
  }: Parameters<typeof storedLogRoutes>[0] & { hub: DeviceHub; logReads: LogReads }) => [
    liveLogRoutes({ logs: liveLogs({ hub, reads: logReads }) }),
    storedLogRoutes({ reads, logBudgets }),
  ],
  tables: byRules(eventLogRetention),
});

import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import { DEFAULT_EVENT_DAYS, deviceLogRule } from '../log-retention/index.ts';

export const eventLogRetention: readonly RetentionRule[] = [
  deviceLogRule('device_event_logs', DEFAULT_EVENT_DAYS, 'event_days'),
];

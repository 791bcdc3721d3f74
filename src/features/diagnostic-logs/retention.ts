import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import { DEFAULT_DIAGNOSTIC_DAYS, deviceLogRule } from '../log-retention/index.ts';

export const diagnosticLogRetention: readonly RetentionRule[] = [
  deviceLogRule('agent_logs', DEFAULT_DIAGNOSTIC_DAYS, 'diagnostic_days'),
];

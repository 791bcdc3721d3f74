import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** The usage history shows 90 days at most. */
export const usageRetention: readonly RetentionRule[] = [
  {
    table: 'backup_usage_days',
    key: ['org_id', 'day', 'provider'],
    days: 100,
    isOver: (days) => `old.day < current_date - ${days}`,
    organization: {},
  },
];

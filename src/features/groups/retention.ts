import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** For dynamic groups, `DynamicGroupSync` also limits the changes to the newest 10,000. */
export const groupRetention: readonly RetentionRule[] = [
  {
    table: 'device_group_changes',
    key: ['org_id', 'group_id', 'id'],
    days: 365,
    isOver: (days) => `old.at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

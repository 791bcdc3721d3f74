import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';

/** Of a dynamic group the follower also keeps no more than the newest ten thousand. */
export const groupRetention: readonly RetentionRule[] = [
  {
    table: 'device_group_changes',
    key: ['org_id', 'group_id', 'id'],
    days: 365,
    isOver: (days) => `old.at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

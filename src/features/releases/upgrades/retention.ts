import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** What writes a new attempt also keeps no more than the newest hundred of its device. */
export const upgradeRetention: readonly RetentionRule[] = [
  {
    table: 'device_upgrades',
    key: ['id'],
    days: 365,
    isOver: (days) => `old.started_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

import { expiredRows, type RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

export const cloudJobRetention: readonly RetentionRule[] = [
  {
    table: 'c2c_jobs',
    key: ['id'],
    days: 100,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
    // Its outcomes go with it.
    atOnce: 50,
  },
  expiredRows('c2c_consents', 'id'),
];

import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** Longer than snapshots of most policies are kept, so that their history can be followed. */
const DAYS = 400;

export const jobRetention: readonly RetentionRule[] = [
  {
    table: 'backup_jobs',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

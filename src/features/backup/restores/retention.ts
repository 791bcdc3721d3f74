import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** As long as the jobs that made the snapshots. */
const DAYS = 400;

export const restoreRetention: readonly RetentionRule[] = [
  {
    table: 'backup_restores',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

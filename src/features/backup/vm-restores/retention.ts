import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** As long as other restores. */
const DAYS = 400;

export const vmRestoreRetention: readonly RetentionRule[] = [
  {
    table: 'backup_vm_restores',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

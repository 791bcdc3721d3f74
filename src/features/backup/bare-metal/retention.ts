import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** As long as restores. */
const DAYS = 400;

export const recoveryRetention: readonly RetentionRule[] = [
  {
    table: 'backup_recovery_tokens',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.created_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

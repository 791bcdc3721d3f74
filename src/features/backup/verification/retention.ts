import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** As long as jobs, so that the proof of a snapshot can be followed. */
const DAYS = 400;

export const verificationRetention: readonly RetentionRule[] = [
  {
    table: 'backup_verifications',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

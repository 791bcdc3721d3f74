import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** Events that are over; those that are open stay. */
export const slaRetention: readonly RetentionRule[] = [
  {
    table: 'backup_sla_events',
    key: ['id'],
    days: 400,
    isOver: (days) => `old.resolved_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

import type { RetentionRule } from '../../../platform/db/retention/retention-rule.ts';

/** Auditors ask for the rehearsals of more than a year. */
const DAYS = 800;

export const executionRetention: readonly RetentionRule[] = [
  {
    table: 'dr_executions',
    key: ['id'],
    days: DAYS,
    // A failover is kept as long as its sources are replaced: its failback needs it.
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days}) and not exists (
      select from dr_steps s where s.org_id = old.org_id and s.execution_id = old.id
        and s.failed_over_at is not null and s.failed_back_at is null)`,
    organization: {},
    atOnce: 100,
  },
];

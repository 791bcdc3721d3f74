import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import { chosenDays, DEFAULT_ALERT_DAYS } from '../log-retention/index.ts';

/** Resolved alerts whose cause persists are kept, because they keep the same alert from being raised again. */
export const alertRetention: readonly RetentionRule[] = [
  {
    table: 'alerts',
    key: ['id'],
    days: DEFAULT_ALERT_DAYS,
    isOver: (days) => `old.status = 'resolved' and not old.cause_lasts
      and old.resolved_at < now() - make_interval(days => ${days})`,
    organization: { chosenDays: chosenDays('alert_days') },
  },
];

import type { RetentionRule } from '../../platform/db/retention/retention-rule.ts';
import type { LogRetention } from './log-retention.schema.ts';

/** The columns of the table `log_retention`, by the fields of the API. */
export const COLUMNS = {
  diagnosticDays: 'diagnostic_days',
  eventDays: 'event_days',
  commandDays: 'command_days',
  alertDays: 'alert_days',
} as const satisfies Record<keyof LogRetention, string>;

/** SQL for the days that the organization `o` of a `RetentionRule` has chosen; null where it has not. */
export const chosenDays = (column: (typeof COLUMNS)[keyof LogRetention]): string =>
  `(select r.${column} from log_retention r where r.org_id = o.id)`;

/**
 * A rule for rows that devices send, which are indexed by device alone. A row is old when it is so by the clocks of both
 * the device and the server: a device's clock may be years behind.
 */
export const deviceLogRule = (
  table: string,
  days: number,
  column: (typeof COLUMNS)[keyof LogRetention],
): RetentionRule => ({
  table,
  key: ['id'],
  days,
  from: `devices d join ${table} old on old.device_id = d.id`,
  isOver: (kept) => `old."timestamp" < now() - make_interval(days => ${kept})
    and old.created_at < now() - make_interval(days => ${kept})`,
  organization: {
    column: 'd.org_id',
    chosenDays: chosenDays(column),
    candidate: 'exists (select from devices d where d.org_id = o.id)',
  },
});

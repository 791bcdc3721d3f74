import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { Organization } from '../organizations/index.ts';

/** As long as presence is known (`hourDays` in src/features/metrics). */
export const PAST_MAINTENANCE_DAYS = 730;

/** Rows are written by a trigger when devices leave maintenance. */
export const pastMaintenanceRetention: readonly RetentionRule[] = [
  {
    table: 'past_maintenance',
    key: ['id'],
    days: PAST_MAINTENANCE_DAYS,
    isOver: (days) => `old.ends_at < now() - make_interval(days => ${days})`,
  },
];

/**
 * SQL: the times in which devices of the organization `:orgId` were in planned maintenance between `:from` and `:to`, as
 * `device_id`, `begins` and `ends`. Those of two windows may overlap. What is in progress is part of it, with its end to come.
 */
export const PLANNED_MAINTENANCE = `select u.device_id, p.begins_at as begins, p.ends_at as ends
  from past_maintenance p cross join lateral unnest(p.device_ids) as u (device_id)
  where p.org_id = :orgId and p.ends_at > :from::timestamptz and p.begins_at < :to::timestamptz
  union all
  select m.device_id, coalesce(m.planned_from, m.starts_at), m.ends_at from maintenance_members m
  where m.org_id = :orgId and m.ends_at > :from::timestamptz
    and coalesce(m.planned_from, m.starts_at) < least(:to::timestamptz, m.ends_at)`;

/** Maintenance of an organization before this time is not known: it was added, or the server kept no past maintenance. */
export async function maintenanceRecordedSince(tx: Tx, orgId: string): Promise<Date> {
  const { maintenanceRecordedSince: since } = await Organization.query(tx)
    .findById(orgId)
    .select('maintenance_recorded_since')
    .throwIfNotFound();
  return since;
}

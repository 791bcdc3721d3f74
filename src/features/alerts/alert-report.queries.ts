import { z } from 'zod';
import { logRetentionOf } from '../log-retention/index.ts';
import { REPORT_DEVICES_MAX, REPORT_ROWS_MAX, reportPart } from '../report-part.ts';
import { AlertSeverity } from './alert.schema.ts';

const count = z.number().int();

const AlertReport = z
  .object({
    opened: count,
    resolved: count.describe('Alerts that were resolved, whenever they were raised.'),
    standing: count.describe('Alerts that were not resolved at the end.'),
    medianAcknowledgeSeconds: z
      .number()
      .nullable()
      .describe('Of the alerts that were raised and acknowledged; null if none was.'),
    medianResolveSeconds: z
      .number()
      .nullable()
      .describe('Of the alerts that were raised and have been resolved; null if none was.'),
    bySeverity: z.array(z.object({ severity: AlertSeverity, opened: count })),
    byKind: z.array(z.object({ kind: z.string(), opened: count })).describe('The most frequent ones.'),
    kindCount: count.describe('How many kinds there were.'),
    devices: z
      .array(z.object({ id: z.uuid(), name: z.string(), opened: count }))
      .describe('The devices with the most alerts.'),
    deviceCount: count.describe('How many devices had alerts.'),
  })
  .meta({ id: 'AlertReport' });

export const alertReport = reportPart({
  permission: 'alerts:read',
  shape: AlertReport,
  keptDays: async (ctx, orgId) => (await logRetentionOf(ctx, orgId)).alertDays,
  async read({ tx }, { orgId, from, to }) {
    const median = (time: string) =>
      `percentile_cont(0.5) within group (order by extract(epoch from ${time} - raised_at)::float8)
        filter (where ${time} is not null)`;
    const { rows } = await tx.raw<{ rows: [z.input<typeof AlertReport>] }>(
      `with opened as materialized (
        select a.kind, a.severity, a.device_id, a.raised_at, a.acknowledged_at, a.resolved_at from alerts a
        where a.org_id = :orgId and a.raised_at >= :from and a.raised_at < :to
      ), of_kinds as (select kind, count(*)::integer as n from opened group by kind),
      of_devices as (
        select device_id, count(*)::integer as n from opened where device_id is not null group by device_id)
      select o.*, ends.*,
        (select coalesce(jsonb_agg(jsonb_build_object('severity', severity, 'opened', n)), '[]')
          from (select severity, count(*)::integer as n from opened group by severity
            order by array_position(array['critical', 'high', 'medium', 'low', 'info'], severity)) s) as "bySeverity",
        (select coalesce(jsonb_agg(jsonb_build_object('kind', kind, 'opened', n)), '[]')
          from (select * from of_kinds order by n desc, kind limit ${REPORT_ROWS_MAX}) k) as "byKind",
        (select count(*)::integer from of_kinds) as "kindCount",
        (select coalesce(jsonb_agg(jsonb_build_object('id', t.device_id, 'name', coalesce(d.display_name, d.hostname),
            'opened', t.n) order by t.n desc, t.device_id), '[]')
          from (select * from of_devices order by n desc, device_id limit ${REPORT_DEVICES_MAX}) t
          join devices d on d.id = t.device_id) as devices,
        (select count(*)::integer from of_devices) as "deviceCount"
      from (select count(*)::integer as opened, ${median('acknowledged_at')} as "medianAcknowledgeSeconds",
          ${median('resolved_at')} as "medianResolveSeconds" from opened) o,
        (select (count(*) filter (where a.resolved_at >= :from and a.resolved_at < :to))::integer as resolved,
          (count(*) filter (where a.resolved_at is null or a.resolved_at >= :to))::integer as standing
        from alerts a where a.org_id = :orgId and a.raised_at < :to) ends`,
      { orgId, from, to },
    );
    return rows[0];
  },
});

import { z } from 'zod';
import { leftServiceAtSql, wasInServiceSql } from '../devices/index.ts';
import { Timestamp } from '../../platform/http/fields.ts';
import {
  maintenanceRecordedSince,
  PAST_MAINTENANCE_DAYS,
  PLANNED_MAINTENANCE,
} from '../maintenance-windows/index.ts';
import { REPORT_DEVICES_MAX, reportPart } from '../report-part.ts';
import { KEPT_DAYS } from './metric.schema.ts';

const count = z.number().int();
const share = z.number().min(0).max(1);

const AvailabilityReport = z
  .object({
    connectedShare: share
      .nullable()
      .describe(
        'The share of the known time outside of planned maintenance in which devices were connected; null if nothing is known.',
      ),
    knownShare: share
      .nullable()
      .describe(
        'The share of the time for which it is known whether devices were connected; null without devices.',
      ),
    devices: count.describe('Devices that were in service at some time.'),
    unknownDevices: count.describe('Those of which nothing is known.'),
    disconnections: count.describe('How often connections ended outside of planned maintenance.'),
    plannedMaintenance: z
      .object({
        minutes: count.describe('The time in which at least one device was in planned maintenance.'),
        devices: count.describe('Devices that were in planned maintenance.'),
        deviceMinutes: count.describe('The times of all devices together.'),
        disconnectedMinutes: count.describe('For how much of them the devices were not connected.'),
      })
      .describe('By maintenance windows. It counts neither for nor against the availability.'),
    plannedMaintenanceSince: Timestamp.nullable().describe(
      'Maintenance before this time was not recorded, and counts as any other time. Null if all of the month was recorded.',
    ),
    leastAvailable: z
      .array(
        z.object({
          id: z.uuid(),
          name: z.string(),
          connectedShare: share,
          disconnectedMinutes: count,
          disconnections: count,
          plannedMaintenanceMinutes: count,
        }),
      )
      .describe('Their times outside of planned maintenance.'),
  })
  .meta({ id: 'AvailabilityReport' });

/** SQL: the seconds of a set of times. Exact decimals: binary fractions of a whole would come to a little more than it. */
const secondsOf = (times: string) =>
  `(select coalesce(sum(extract(epoch from upper(s) - lower(s))), 0) from unnest(${times}) as s)`;

export const availabilityReport = reportPart({
  shape: AvailabilityReport,
  keptDays: async () => Math.min(KEPT_DAYS.hourDays, PAST_MAINTENANCE_DAYS),
  async read({ tx }, { orgId, from, to }) {
    interface Row {
      connectedShare: number | null;
      knownShare: number | null;
      devices: number;
      unknownDevices: number;
      disconnections: number;
      plannedMaintenance: z.infer<typeof AvailabilityReport>['plannedMaintenance'];
      leastAvailable: z.infer<typeof AvailabilityReport>['leastAvailable'];
    }
    // The changes of each device are found by its own index entries, however many other devices the server has. The last
    // change before the time says how it began. Without any, what a device is now says so if it has been so for long enough.
    const { rows } = await tx.raw<{ rows: [Row] }>(
      `with mine as materialized (
        select d.id, coalesce(d.display_name, d.hostname) as name,
          greatest(:from::timestamptz, d.created_at) as begins, least(:to::timestamptz, ${leftServiceAtSql('d')}) as ends
        from devices d where d.org_id = :orgId and d.created_at < :to and ${wasInServiceSql('d')}
      ), planned as materialized (
        select device_id, range_agg(tstzrange(begins, ends)) as times from (${PLANNED_MAINTENANCE}) p group by device_id
      ), served as materialized (
        select m.*, coalesce(p.times * tstzmultirange(tstzrange(m.begins, m.ends)), '{}') as planned
        from mine m left join planned p on p.device_id = m.id where m.begins < m.ends
      ), measured as materialized (
        select m.id, m.name, m.planned, extract(epoch from m.ends - m.begins) as whole, t.losses, t.known,
          t.known - p.known as judged, t.connected - p.connected as connected,
          p.maintained, p.known - p.connected as maintained_away
        from served m cross join lateral (
          select coalesce(sum(seconds), 0) as known,
            coalesce(sum(seconds) filter (where state = 'connected'), 0) as connected,
            -- Sets of times only for devices that were in maintenance.
            range_agg(span) filter (where not isempty(m.planned)) as known_times,
            range_agg(span) filter (where not isempty(m.planned) and state = 'connected') as connected_times,
            (count(*) filter (where state = 'disconnected' and at >= m.begins and was = 'connected'
              and not m.planned @> at))::integer as losses
          from (
            select state, at, was, tstzrange(begins, ends) as span, extract(epoch from ends - begins) as seconds
            from (
              select state, at, lag(state) over (order by at) as was, greatest(at, m.begins) as begins,
                coalesce(lead(at) over (order by at), m.ends) as ends
              from (
                (select c.state, c.at from presence_changes c
                  where c.device_id = m.id and c.org_id = :orgId and c.at < m.begins order by c.at desc limit 1)
                union all
                (select c.state, c.at from presence_changes c
                  where c.device_id = m.id and c.org_id = :orgId and c.at >= m.begins and c.at < m.ends)
                union all
                (select p.state, p.since from device_presence p where p.device_id = m.id and p.since < m.ends
                  and not exists (select from presence_changes c
                    where c.device_id = m.id and c.org_id = :orgId and c.at < m.ends))
              ) changes
            ) times
          ) stretches
        ) t cross join lateral (
          select ${secondsOf('m.planned')} as maintained, ${secondsOf('t.known_times * m.planned')} as known,
            ${secondsOf('t.connected_times * m.planned')} as connected
        ) p
      )
      select (sum(connected) / nullif(sum(judged), 0))::float8 as "connectedShare",
        (sum(known) / nullif(sum(whole), 0))::float8 as "knownShare",
        count(*)::integer as devices, (count(*) filter (where known = 0))::integer as "unknownDevices",
        coalesce(sum(losses), 0)::integer as disconnections,
        jsonb_build_object('minutes', round(${secondsOf('range_agg(planned)')} / 60)::integer,
          'devices', count(*) filter (where not isempty(planned)),
          'deviceMinutes', round(coalesce(sum(maintained), 0) / 60)::integer,
          'disconnectedMinutes', round(coalesce(sum(maintained_away), 0) / 60)::integer) as "plannedMaintenance",
        (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'connectedShare', connected / judged,
            'disconnectedMinutes', round((judged - connected) / 60)::integer, 'disconnections', losses,
            'plannedMaintenanceMinutes', round(maintained / 60)::integer)
            order by connected / judged, name, id), '[]')
          from (select * from measured where judged > 0 and connected < judged order by connected / judged, name, id
            limit ${REPORT_DEVICES_MAX}) least_available) as "leastAvailable"
      from measured`,
      { orgId, from, to },
    );
    const since = await maintenanceRecordedSince(tx, orgId);
    return { ...rows[0], plannedMaintenanceSince: since > from ? since : null };
  },
});

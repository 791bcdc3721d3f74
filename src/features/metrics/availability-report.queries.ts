import { z } from 'zod';
import { leftServiceAtSql, wasInServiceSql } from '../devices/index.ts';
import { REPORT_DEVICES_MAX, reportPart } from '../report-part.ts';
import { KEPT_DAYS } from './metric.schema.ts';

const count = z.number().int();
const share = z.number().min(0).max(1);

const AvailabilityReport = z
  .object({
    connectedShare: share
      .nullable()
      .describe('The share of the known time in which devices were connected; null if nothing is known.'),
    knownShare: share
      .nullable()
      .describe(
        'The share of the time for which it is known whether devices were connected; null without devices.',
      ),
    devices: count.describe('Devices that were in service at some time.'),
    unknownDevices: count.describe('Those of which nothing is known.'),
    disconnections: count.describe('How often connections ended.'),
    leastAvailable: z.array(
      z.object({
        id: z.uuid(),
        name: z.string(),
        connectedShare: share,
        disconnectedMinutes: count,
        disconnections: count,
      }),
    ),
  })
  .meta({ id: 'AvailabilityReport' });

export const availabilityReport = reportPart({
  shape: AvailabilityReport,
  keptDays: async () => KEPT_DAYS.hourDays,
  async read({ tx }, { orgId, from, to }) {
    interface Row {
      connectedShare: number | null;
      knownShare: number | null;
      devices: number;
      unknownDevices: number;
      disconnections: number;
      leastAvailable: z.infer<typeof AvailabilityReport>['leastAvailable'];
    }
    // The changes of each device are found by its own index entries, however many other devices the server has. The last
    // change before the time says how it began. Without any, what a device is now says so if it has been so for long enough.
    const { rows } = await tx.raw<{ rows: [Row] }>(
      // Exact decimals: binary fractions of a whole would come to a little more than it.
      `with mine as materialized (
        select d.id, coalesce(d.display_name, d.hostname) as name,
          greatest(:from::timestamptz, d.created_at) as begins, least(:to::timestamptz, ${leftServiceAtSql('d')}) as ends
        from devices d where d.org_id = :orgId and d.created_at < :to and ${wasInServiceSql('d')}
      ), measured as materialized (
        select m.id, m.name, extract(epoch from m.ends - m.begins) as whole, t.*
        from mine m cross join lateral (
          select coalesce(sum(seconds) filter (where state = 'connected'), 0) as connected,
            coalesce(sum(seconds), 0) as known,
            (count(*) filter (where state = 'disconnected' and at >= m.begins and was = 'connected'))::integer as losses
          from (
            select state, at, lag(state) over (order by at) as was, extract(epoch from
              coalesce(lead(at) over (order by at), m.ends) - greatest(at, m.begins)) as seconds
            from (
              (select c.state, c.at from presence_changes c where c.device_id = m.id and c.org_id = :orgId and c.at < m.begins
                order by c.at desc limit 1)
              union all
              (select c.state, c.at from presence_changes c
                where c.device_id = m.id and c.org_id = :orgId and c.at >= m.begins and c.at < m.ends)
              union all
              (select p.state, p.since from device_presence p where p.device_id = m.id and p.since < m.ends
                and not exists (select from presence_changes c
                  where c.device_id = m.id and c.org_id = :orgId and c.at < m.ends))
            ) changes
          ) stretches
        ) t
        where m.begins < m.ends
      )
      select (sum(connected) / nullif(sum(known), 0))::float8 as "connectedShare",
        (sum(known) / nullif(sum(whole), 0))::float8 as "knownShare",
        count(*)::integer as devices, (count(*) filter (where known = 0))::integer as "unknownDevices",
        coalesce(sum(losses), 0)::integer as disconnections,
        (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'connectedShare', connected / known,
            'disconnectedMinutes', round((known - connected) / 60)::integer, 'disconnections', losses)
            order by connected / known, name, id), '[]')
          from (select * from measured where known > 0 and connected < known order by connected / known, name, id
            limit ${REPORT_DEVICES_MAX}) least_available) as "leastAvailable"
      from measured`,
      { orgId, from, to },
    );
    return rows[0];
  },
});

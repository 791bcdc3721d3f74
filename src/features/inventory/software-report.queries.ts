import { z } from 'zod';
import { REPORT_ROWS_MAX, reportPart } from '../report-part.ts';
import { CHANGES_MAX } from './inventory.queries.ts';

const count = z.number().int();

const SoftwareReport = z
  .object({
    installed: count,
    updated: count,
    removed: count,
    devices: count.describe('Devices whose software changed.'),
    titles: z
      .array(z.object({ name: z.string(), installed: count, updated: count, removed: count }))
      .describe('Those that changed most often.'),
    titleCount: count.describe('How many titles changed.'),
    cutDevices: count.describe(
      `Devices with more changes since then than the ${CHANGES_MAX} that are kept of each: earlier ones are not counted.`,
    ),
  })
  .meta({ id: 'SoftwareReport' });

export const softwareReport = reportPart({
  shape: SoftwareReport,
  async read({ tx }, { orgId, from, to }) {
    const counts = ['installed', 'updated', 'removed']
      .map((change) => `(count(*) filter (where change = '${change}'))::integer as ${change}`)
      .join(', ');
    const { rows } = await tx.raw<{ rows: [z.input<typeof SoftwareReport>] }>(
      `with changes as materialized (
        select s.device_id, s.change, s.name from software_changes s
        where s.org_id = :orgId and s.at >= :from and s.at < :to
      ), titles as (select name, ${counts}, count(*) as n from changes group by name),
      -- The oldest row that is kept of a device with as many as can be.
      cut as (
        select from devices d cross join lateral (
          select s.at from software_changes s where s.org_id = :orgId and s.device_id = d.id
          order by s.id desc offset ${CHANGES_MAX - 1} limit 1) oldest
        where d.org_id = :orgId and oldest.at > :from)
      select totals.*, (select coalesce(jsonb_agg(jsonb_build_object('name', name, 'installed', installed,
            'updated', updated, 'removed', removed)), '[]')
          from (select * from titles order by n desc, name limit ${REPORT_ROWS_MAX}) t) as titles,
        (select count(*)::integer from titles) as "titleCount", (select count(*)::integer from cut) as "cutDevices"
      from (select ${counts}, count(distinct device_id)::integer as devices from changes) totals`,
      { orgId, from, to },
    );
    return rows[0];
  },
});

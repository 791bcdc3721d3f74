import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { type FleetSoftwareQuery, type SoftwareTitle, VERSIONS_SHOWN } from './inventory.schema.ts';

/**
 * Titles of all organizations that the caller can see, by name. Devices are counted for the page only, which is enough work
 * for titles that every device has. So a title that only decommissioned devices have is listed with no device.
 */
export async function listTitles(
  ctx: Context,
  { page, limit, search, orgId }: FleetSoftwareQuery,
): Promise<Page<SoftwareTitle>> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const conditions = [
    inTenant(ctx.caller, 't.org_id'),
    ...(orgId === undefined ? [] : ['t.org_id = :orgId']),
    ...(search === undefined ? [] : ['t.name ilike :pattern']),
  ];
  const { rows } = await ctx.tx.raw<{ rows: { total: number; data: SoftwareTitle[] }[] }>(
    `with titles as materialized (
      select t.org_id, t.id, t.name from software_titles t where ${conditions.join(' and ')}
    ), names as materialized (
      select name from titles group by name
    ), shown as materialized (
      select name from names order by ${nameOrder('name')} offset :offset limit :limit
    ), installed as materialized (
      select t.name, s.device_id, s.version from shown join titles t using (name)
      join device_software s on s.org_id = t.org_id and s.title_id = t.id
      where not exists (select from devices d
        where d.org_id = s.org_id and d.id = s.device_id and d.condition = 'decommissioned')
    ), versions as (
      select name, version, count(*)::int as devices,
        row_number() over (partition by name order by count(*) desc, version desc) as position
      from installed group by name, version
    ), spread as (
      select name, count(*)::int as kinds,
        json_agg(json_build_object('version', version, 'deviceCount', devices) order by position)
          filter (where position <= ${VERSIONS_SHOWN}) as versions
      from versions group by name
    ), holders as (
      select name, count(distinct device_id)::int as devices from installed group by name
    )
    select (select count(*)::int from names) as total,
      coalesce((select json_agg(json_build_object('name', name, 'deviceCount', coalesce(h.devices, 0),
          'versionCount', coalesce(s.kinds, 0), 'versions', coalesce(s.versions, '[]')) order by ${nameOrder('name')})
        from shown left join holders h using (name) left join spread s using (name)), '[]') as data`,
    { orgId: orgId ?? null, pattern: containing(search ?? ''), offset: (page - 1) * limit, limit },
  );
  return { data: rows[0]?.data ?? [], pagination: { page, limit, total: rows[0]?.total ?? 0 } };
}

import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { readDevice } from '../devices/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import {
  type DeviceInventory,
  type FleetSoftwareQuery,
  type InstalledSoftware,
  type SoftwareChangeEntry,
  type SoftwareChangeQuery,
  type SoftwareQuery,
  type SoftwareTitle,
  VERSIONS_SHOWN,
} from './inventory.schema.ts';
import { expectMany } from './stored-software.ts';

export async function readInventory(ctx: Context, deviceId: string): Promise<DeviceInventory> {
  const { id, orgId, hardware, network } = await readDevice(ctx, deviceId);
  const { rows } = await ctx.tx.raw<{ rows: Omit<DeviceInventory, 'deviceId' | 'orgId'>[] }>(
    `select coalesce(i.interfaces, '[]') as interfaces, d.last_user as "lastUser",
      (select count(distinct s.title_id)::int from device_software s
        where s.org_id = d.org_id and s.device_id = d.id) as "softwareCount",
      i.collected_at as "collectedAt", i.received_at as "receivedAt"
    from devices d left join device_inventory i on i.org_id = d.org_id and i.device_id = d.id
    where d.org_id = ? and d.id = ?`,
    [orgId, id],
  );
  const told = rows[0] ?? {
    interfaces: [],
    lastUser: null,
    softwareCount: 0,
    collectedAt: null,
    receivedAt: null,
  };
  return { ...told, deviceId: id, orgId, hardware, network };
}

export async function listInstalled(
  ctx: Context,
  deviceId: string,
  { page, limit, search }: SoftwareQuery,
): Promise<Page<InstalledSoftware>> {
  const { id, orgId } = await readDevice(ctx, deviceId);
  await expectMany(ctx.tx);
  const matching = ctx
    .tx('device_software as s')
    .join('software_titles as t', (on) => void on.on('t.org_id', 's.org_id').andOn('t.id', 's.title_id'))
    .where({ 's.org_id': orgId, 's.device_id': id, 't.org_id': orgId })
    .whereRaw(inTenant(ctx.caller, 's.org_id'));
  if (search !== undefined) void matching.whereILike('t.name', containing(search));
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const data = await matching
    .select<InstalledSoftware[]>('t.name', 's.version', 's.publisher', 's.installed_at as installedAt')
    .orderByRaw(`${nameOrder('t.name')}, s.version`)
    .offset((page - 1) * limit)
    .limit(limit);
  return { data, pagination: { page, limit, total: Number(counted?.count ?? 0) } };
}

export async function listChanges(
  ctx: Context,
  deviceId: string,
  { page, limit, search, change }: SoftwareChangeQuery,
): Promise<Page<SoftwareChangeEntry>> {
  const { id, orgId } = await readDevice(ctx, deviceId);
  const matching = ctx
    .tx('software_changes')
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'));
  if (search !== undefined) void matching.whereILike('name', containing(search));
  if (change !== undefined) void matching.whereRaw('change = any(?::text[])', [change]);
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const data = await matching
    .select<SoftwareChangeEntry[]>('at', 'change', 'name', 'version', 'previous_version as previousVersion')
    .orderBy('id', 'desc')
    .offset((page - 1) * limit)
    .limit(limit);
  return { data, pagination: { page, limit, total: Number(counted?.count ?? 0) } };
}

/**
 * Titles over all organizations that the caller sees, by name. Devices are counted for the page alone: of a title that
 * is on every machine that is work enough. So one that only decommissioned devices have is in the list, with no device.
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
        row_number() over (partition by name order by count(*) desc, version desc) as place
      from installed group by name, version
    ), spread as (
      select name, count(*)::int as kinds,
        json_agg(json_build_object('version', version, 'deviceCount', devices) order by place)
          filter (where place <= ${VERSIONS_SHOWN}) as versions
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

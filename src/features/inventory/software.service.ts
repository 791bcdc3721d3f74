import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { type Page, toPage } from '../../platform/http/pagination.ts';
import { findDevice } from '../devices/index.ts';
import { DeviceInventory, DeviceSoftware, SoftwareChange } from './inventory.model.ts';
import type {
  DeviceInventory as InventoryAnswer,
  InstalledSoftware,
  SoftwareChangeEntry,
  SoftwareChangeQuery,
  SoftwareQuery,
} from './inventory.schema.ts';
import { expectMany } from './software.queries.ts';

export async function readInventory(ctx: Context, deviceId: string): Promise<InventoryAnswer> {
  const { id, orgId, hardware, network, lastUser } = await findDevice(ctx, deviceId);
  const inventory = await DeviceInventory.query(ctx.tx).findById([orgId, id]);
  return {
    deviceId: id,
    orgId,
    hardware,
    network,
    interfaces: inventory?.interfaces ?? [],
    lastUser,
    softwareCount: await softwareOf(ctx, { id, orgId }).distinct('title_id').resultSize(),
    collectedAt: inventory?.collectedAt ?? null,
    receivedAt: inventory?.receivedAt ?? null,
    failedSources: inventory?.failedSources ?? [],
  };
}

const softwareOf = (ctx: Context, device: { id: string; orgId: string }) =>
  DeviceSoftware.query(ctx.tx)
    .where({ 'device_software.org_id': device.orgId, 'device_software.device_id': device.id })
    .whereRaw(inTenant(ctx.caller, 'device_software.org_id'));

export async function listInstalled(
  ctx: Context,
  deviceId: string,
  query: SoftwareQuery,
): Promise<Page<InstalledSoftware>> {
  const device = await findDevice(ctx, deviceId);
  await expectMany(ctx.tx);
  const software = softwareOf(ctx, device)
    .joinRelated('title')
    .select('title.name', 'device_software.version', 'publisher', 'installed_at')
    .orderByRaw(`${nameOrder('title.name')}, device_software.version`)
    .page(query.page - 1, query.limit);
  if (query.search !== undefined) void software.whereILike('title.name', containing(query.search));
  return toPage(query, await software);
}

export async function listChanges(
  ctx: Context,
  deviceId: string,
  query: SoftwareChangeQuery,
): Promise<Page<SoftwareChangeEntry>> {
  const { id, orgId } = await findDevice(ctx, deviceId);
  const changes = SoftwareChange.query(ctx.tx)
    .where({ org_id: orgId, device_id: id })
    .whereRaw(inTenant(ctx.caller, 'org_id'))
    .orderBy('id', 'desc')
    .page(query.page - 1, query.limit);
  if (query.search !== undefined) void changes.whereILike('name', containing(query.search));
  if (query.change !== undefined) void changes.whereRaw('change = any(?::text[])', [query.change]);
  return toPage(query, await changes);
}

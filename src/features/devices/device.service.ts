import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { notFound } from '../../platform/errors.ts';
import type { Page } from '../../platform/http/pagination.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { revokeAgentTokens } from './agent-credentials.ts';
import { orderDevices, selectDevices, STATUS_IS, toDevice, visibleDevices } from './device.report.ts';
import type { Device, DeviceQuery } from './device.schema.ts';

export async function listDevices(ctx: Context, query: DeviceQuery): Promise<Page<Device>> {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const matching = visibleDevices(ctx.tx, ctx.caller);
  if (query.orgId !== undefined) void matching.where('d.org_id', query.orgId);
  if (query.siteId !== undefined) void matching.where('d.site_id', query.siteId);
  if (query.osType !== undefined) void matching.where('d.os_type', query.osType);
  if (query.status !== undefined) void STATUS_IS(matching, query.status);
  if (query.search !== undefined) {
    const pattern = `%${query.search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
    void matching.where(
      (either) => void either.whereILike('d.hostname', pattern).orWhereILike('d.display_name', pattern),
    );
  }
  const [counted] = await matching.clone().count<{ count: string }[]>('* as count');
  const page = orderDevices(selectDevices(matching), query.sort, query.order)
    .offset((query.page - 1) * query.limit)
    .limit(query.limit);
  return {
    data: (await page).map(toDevice),
    pagination: { page: query.page, limit: query.limit, total: Number(counted?.count ?? 0) },
  };
}

export async function readDevice(ctx: Context, id: string): Promise<Device> {
  const [row] = await selectDevices(visibleDevices(ctx.tx, ctx.caller).where('d.id', id));
  if (row === undefined) throw notFound('Device');
  return toDevice(row);
}

/** Takes a device out of service: its token dies and its connection with it. The record stays for the audit trail. */
export async function decommissionDevice(
  ctx: Context,
  id: string,
  hub: DeviceHub,
): Promise<{ success: true; device: Device }> {
  const device = await readDevice(ctx, id);
  await assertManageable(ctx, device.orgId);
  await ctx.tx('devices').where({ id }).update({ condition: 'decommissioned', updated_at: new Date() });
  await revokeAgentTokens(ctx.tx, id);
  ctx.afterCommit(() => hub.deviceLeft(id));
  return { success: true, device };
}

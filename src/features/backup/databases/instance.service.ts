import { clock } from '../../../clock.ts';
import { type DeviceHub, liveQueryError, remainingQueryMs, withinQueryTimeout } from '../../../hub/index.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { CommandOutput } from '../../../protocol/index.ts';
import { findAskableDevice } from '../../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import type { DeviceInstanceQuery, InstanceQuery } from './databases.schema.ts';
import { BackupDatabaseInstance } from './instance.model.ts';

/** The database servers of devices, as those have listed them. */

export interface InstanceParts {
  hub: DeviceHub;
}

export async function listInstances(ctx: DetachedContext, query: InstanceQuery, parts: InstanceParts) {
  if (query.refresh === true && query.deviceId !== undefined) await discover(ctx, query.deviceId, parts);
  return ctx.withTenant(async (tenant) => {
    const { orgId, deviceId, engine } = query;
    if (orgId !== undefined) await assertOrganizationAccess(tenant, orgId);
    const found = await visible(tenant)
      .where(omitUndefined({ org_id: orgId, device_id: deviceId, engine }))
      .page(query.page - 1, query.limit);
    return toPage(query, { total: found.total, results: found.results.map(shownInstance) });
  });
}

export async function instancesOfDevice(
  ctx: DetachedContext,
  deviceId: string,
  { engine, refresh = false }: DeviceInstanceQuery,
  parts: InstanceParts,
) {
  const read = () =>
    ctx.withTenant(async (tenant) => {
      await findAskableDevice(tenant, deviceId);
      return visible(tenant).where(omitUndefined({ device_id: deviceId, engine }));
    });
  const stored = refresh ? [] : await read();
  const canAsk = parts.hub.live(deviceId)?.isConnected === true;
  if (refresh || (stored.length === 0 && canAsk)) await discover(ctx, deviceId, parts);
  else return { data: stored.map(shownInstance) };
  return { data: (await read()).map(shownInstance) };
}

const visible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  BackupDatabaseInstance.query(tx)
    .whereRaw(inTenant(caller, 'backup_database_instances.org_id'))
    .orderBy(['device_id', 'engine', 'instance']);

/** Asks a device, and keeps what it answers. */
async function discover(ctx: DetachedContext, deviceId: string, { hub }: InstanceParts): Promise<void> {
  await withinQueryTimeout(
    ctx.arrivedAt,
    ctx.withTenant(async (tenant) =>
      assertManageable(tenant, (await findAskableDevice(tenant, deviceId)).orgId),
    ),
  );
  const outcome = await hub.query(deviceId, {
    type: 'backup.databases',
    payload: {},
    timeoutMs: remainingQueryMs(ctx.arrivedAt),
  });
  if (!outcome.ok) throw liveQueryError(outcome);
  await ctx.withTenant((tenant) => keep(tenant, deviceId, outcome.output));
}

/** What a device lists no more is gone, unless it could not look for servers of that engine. */
async function keep(
  ctx: Context,
  deviceId: string,
  { instances, failed = [] }: CommandOutput<'backup.databases'>,
): Promise<void> {
  const unread = new Set(failed.map(({ source }) => source));
  const { orgId } = await findAskableDevice(ctx, deviceId);
  const listed = new Map(instances.map((each) => [JSON.stringify([each.engine, each.instance]), each]));
  const known = await BackupDatabaseInstance.query(ctx.tx).where('device_id', deviceId);
  const gone = known.filter(
    ({ engine, instance }) => !unread.has(engine) && !listed.has(JSON.stringify([engine, instance])),
  );
  await BackupDatabaseInstance.query(ctx.tx)
    .delete()
    .whereIn(
      'id',
      gone.map(({ id }) => id),
    );
  if (listed.size === 0) return;
  const lastDiscoveredAt = clock.date();
  const rows = [...listed.values()].map(({ engine, instance, ...facts }) => ({
    orgId,
    deviceId,
    engine,
    instance,
    facts,
    lastDiscoveredAt,
  }));
  await BackupDatabaseInstance.query(ctx.tx)
    .insert(rows)
    .onConflict(['device_id', 'engine', 'instance'])
    .merge(['facts', 'last_discovered_at']);
}

const shownInstance = ({ facts, ...instance }: BackupDatabaseInstance) => ({ ...facts, ...instance });

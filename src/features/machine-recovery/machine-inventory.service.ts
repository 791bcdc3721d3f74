import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { invalid } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { HypervisorKind, Machine } from '../../protocol/index.ts';
import { deviceRequests } from '../backup/index.ts';
import { findDevice } from '../devices/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { BackupMachine } from './machine-recovery.model.ts';
import { longestUnasked } from './machine-recovery.queries.ts';
import type { FoundMachine, MachineQuery } from './machine.schema.ts';

/** Guests of hypervisors, as devices have listed them. */

export interface MachineParts {
  hub: DeviceHub;
}

export async function listMachines(
  ctx: DetachedContext,
  hypervisor: HypervisorKind,
  query: MachineQuery,
  parts: MachineParts & { signal: AbortSignal },
) {
  const { orgId, deviceId } = query;
  await ctx.withTenant(async (tenant) => {
    if (orgId !== undefined) await assertOrganizationAccess(tenant, orgId);
    if (deviceId !== undefined) await findDevice(tenant, deviceId);
  });
  if (query.refresh === true) {
    const asked =
      deviceId === undefined
        ? await ctx.withTenant((tenant) => longestUnasked(tenant, hypervisor, orgId))
        : [deviceId];
    await Promise.all(
      asked.map((id) =>
        discover(ctx, hypervisor, id, parts).catch((error: unknown) => {
          ctx.log.info({ err: error, deviceId: id }, 'backup.machines_not_listed');
        }),
      ),
    );
  }
  return ctx.withTenant(async (tenant) => {
    const found = await visible(tenant, hypervisor)
      .where(omitUndefined({ org_id: orgId, device_id: deviceId }))
      .page(query.page - 1, query.limit);
    return toPage(query, { total: found.total, results: found.results.map(toMachineResponse) });
  });
}

export async function machinesOfDevice(
  ctx: DetachedContext,
  hypervisor: HypervisorKind,
  { deviceId, refresh = false }: { deviceId: string; refresh?: boolean | undefined },
  parts: MachineParts & { signal: AbortSignal },
) {
  if (refresh) await discover(ctx, hypervisor, deviceId, parts);
  return ctx.withTenant(async (tenant) => {
    await findDevice(tenant, deviceId);
    const found = await visible(tenant, hypervisor).where('device_id', deviceId);
    return { data: found.map(toMachineResponse) };
  });
}

const visible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>, hypervisor: HypervisorKind) =>
  BackupMachine.query(tx)
    .where('hypervisor', hypervisor)
    .whereRaw(inTenant(caller, 'backup_machines.org_id'))
    .orderBy(['device_id', 'name', 'machine_id']);

/** Asks a device, and keeps what it answers. */
async function discover(
  ctx: DetachedContext,
  hypervisor: HypervisorKind,
  deviceId: string,
  { hub, signal }: MachineParts & { signal: AbortSignal },
): Promise<void> {
  const question = { type: 'backup.vm-list', payload: { hypervisor }, signal } as const;
  const { machines, truncated } = await deviceRequests.askDevice(ctx, deviceId, question, hub);
  await ctx.withTenant((tenant) => keep(tenant, { hypervisor, deviceId, machines, isWhole: !truncated }));
}

interface Listed {
  hypervisor: HypervisorKind;
  deviceId: string;
  machines: readonly Machine[];
  isWhole: boolean;
}

const ROWS_AT_ONCE = 200;

/** Removes the guests that a device lists no more. */
async function keep(ctx: Context, { hypervisor, deviceId, machines, isWhole }: Listed): Promise<void> {
  const { orgId } = await findDevice(ctx, deviceId);
  // A device may say anything, also the same id twice.
  const listed = new Map(machines.map((machine) => [machine.id, machine]));
  if (isWhole) {
    await BackupMachine.query(ctx.tx)
      .delete()
      .where({ device_id: deviceId, hypervisor })
      .whereRaw('not machine_id = any(?::text[])', [[...listed.keys()]]);
  }
  const lastDiscoveredAt = clock.date();
  const rows = [...listed.values()].map(({ id: machineId, name, ...facts }) => ({
    id: newId(),
    orgId,
    deviceId,
    hypervisor,
    machineId,
    name,
    facts: { ...facts, ...(isWhole ? {} : { listIsCut: true }) },
    lastDiscoveredAt,
  }));
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    await BackupMachine.query(ctx.tx)
      .insert(rows.slice(at, at + ROWS_AT_ONCE))
      .onConflict(['device_id', 'hypervisor', 'machine_id'])
      .merge(['name', 'facts', 'last_discovered_at']);
  }
}

/** The machine that a person means. */
export async function findMachine(
  ctx: Context,
  hypervisor: HypervisorKind,
  { deviceId, vmName, vmId }: { deviceId: string; vmName?: string | undefined; vmId?: string | undefined },
): Promise<BackupMachine> {
  const found = visible(ctx, hypervisor).where('device_id', deviceId).limit(2);
  if (vmId === undefined) void found.whereRaw('lower(name) = lower(?)', [vmName ?? '']);
  else void found.whereRaw('lower(machine_id) = lower(?)', [vmId]);
  const [machine, another] = await found;
  const field = vmId === undefined ? 'body.vmName' : 'body.vmId';
  if (machine === undefined) {
    throw invalid(field, 'must be a machine that the device has listed: read the list with refresh=true');
  }
  if (another !== undefined) throw invalid(field, 'is the name of several machines: give the vmId of one');
  return machine;
}

const MIB = 1024 ** 2;

function toMachineResponse({ facts, machineId, name, ...machine }: BackupMachine): FoundMachine {
  const { memoryBytes, processors, tracksChanges, disks } = facts;
  const { orgId, deviceId, hypervisor, lastDiscoveredAt } = machine;
  return {
    vmId: machineId,
    vmName: name,
    orgId,
    deviceId,
    hypervisor,
    generation: facts.generation,
    bootMode: facts.bootMode,
    state: facts.state,
    vhdPaths: disks.map(({ path }) => path),
    disks,
    memoryMb: memoryBytes === null ? null : Math.round(memoryBytes / MIB),
    processorCount: processors,
    rctEnabled: tracksChanges,
    hasPassthroughDisks: disks.some(({ isPassthrough }) => isPassthrough),
    checkpoints: facts.checkpoints,
    ...omitUndefined({ isCut: facts.isCut, listIsCut: facts.listIsCut }),
    lastDiscoveredAt: lastDiscoveredAt.toISOString(),
  };
}

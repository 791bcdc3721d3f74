import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  type BootMode,
  type DurableCommandType,
  type HypervisorKind,
  VmNetwork,
} from '../../protocol/index.ts';
import { extendCredential } from '../backup-store/index.ts';
import { type RepositoryReaders, restoreRules, deviceRequests, snapshotReading } from '../backup/index.ts';
import { addCommands, cancelCommand } from '../commands/index.ts';
import { type CommandTarget, commandTargets } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { VmRestore } from './machine-recovery.model.ts';
import {
  assertIsOfMachines,
  estimateOf,
  type MachineQuery,
  type MachineSource,
  openMachineSource,
  ownImageOf,
  specsOf,
  type StartedVm,
  startOrder,
} from './machine-source.ts';
import {
  type ActiveQuery,
  type EstimateQuery,
  type NewInstantBoot,
  type NewVmRestore,
  type VM_RESTORE_STATUSES,
  VmFacts,
  type VmRestoreQuery,
  type VmSpec,
} from './vm-restore.schema.ts';

export interface VmRestoreParts {
  hub: DeviceHub;
  secrets: Encryptor;
  backupStore: { readers: RepositoryReaders };
}

/** Each keeps a snapshot from being removed, and takes memory of its host. */
const OPEN_MAX = 20;
/** A machine reads its snapshot for as long as it is not migrated. The time is put off while it does. */
export const HOLD_MS = 7 * 24 * 3_600_000;

const accessible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  VmRestore.query(tx).whereRaw(inTenant(caller, 'backup_vm_restores.org_id'));

/** Estimates one machine by its device's report, and one of several machines by the contents of the store. */
export async function estimateVm(
  ctx: DetachedContext,
  { snapshotId, machine }: EstimateQuery,
  { backupStore }: VmRestoreParts,
  signal: AbortSignal,
) {
  const snapshot = await ctx.withTenant((tenant) => snapshotReading.findSnapshot(tenant, snapshotId));
  assertIsOfMachines(snapshot);
  const own = ownImageOf(snapshot, machine);
  if (own !== undefined) return estimateOf(own, snapshot);
  const reading = { ...backupStore, signal };
  return estimateOf((await openMachineSource(ctx, { snapshotId, machine }, reading)).image, snapshot);
}

export const prepareVm = (
  ctx: DetachedContext,
  query: MachineQuery,
  { backupStore }: VmRestoreParts,
  signal: AbortSignal,
): Promise<MachineSource> => openMachineSource(ctx, query, { ...backupStore, signal });

export function createVmRestore(
  ctx: Context,
  body: NewVmRestore,
  source: MachineSource,
  parts: VmRestoreParts,
) {
  assertBootMode(source, body.bootMode);
  const { vmSpecs = {}, format, start = format !== 'vhdx', grow } = body;
  assertHolds(source, vmSpecs.diskSizeGb);
  const disks = { diskSizeGb: vmSpecs.diskSizeGb ?? null, format, start, ...omitUndefined({ grow }) };
  const spec = { ...specOf(body, source), ...disks };
  return create(ctx, { ...body, kind: 'as_vm', spec }, source, parts);
}

export const createInstantBoot = (
  ctx: Context,
  body: NewInstantBoot,
  source: MachineSource,
  parts: VmRestoreParts,
) => create(ctx, { ...body, kind: 'instant_boot', spec: specOf(body, source) }, source, parts);

function specOf(
  {
    vmSpecs = {},
    network,
    targetPath,
    machine,
  }: Pick<NewInstantBoot, 'vmSpecs' | 'network' | 'targetPath' | 'machine'>,
  { image }: MachineSource,
): VmSpec {
  const { memoryMb, cpuCount } = specsOf(image);
  return {
    memoryMb: vmSpecs.memoryMb ?? memoryMb,
    cpuCount: vmSpecs.cpuCount ?? cpuCount,
    diskSizeGb: null,
    format: 'qcow2',
    start: true,
    network: network ?? VmNetwork.parse({ type: 'user' }),
    targetPath: targetPath ?? null,
    ...omitUndefined({ machine }),
  };
}

/** A system that starts in one way does not start in the other, so this is refused before anything is copied. */
function assertBootMode({ image }: MachineSource, wanted: BootMode | undefined): void {
  const { bootMode } = image;
  if (wanted === undefined || bootMode === null || wanted === bootMode) return;
  throw invalid('body.bootMode', `must be ${bootMode}, by which the machine starts`);
}

const GIB = 1024 ** 3;

/** A disk only becomes larger. */
function assertHolds({ image }: MachineSource, diskSizeGb: number | undefined): void {
  const needed = image.disks[0]?.sizeBytes ?? 0;
  if (diskSizeGb === undefined || diskSizeGb * GIB >= needed) return;
  const rule = `must be at least ${Math.ceil(needed / GIB)}: the first disk needs ${needed} bytes`;
  throw invalid('body.vmSpecs.diskSizeGb', rule);
}

interface Wanted {
  kind: VmRestore['kind'];
  hypervisor: HypervisorKind;
  targetDeviceId?: string | undefined;
  vmName: string;
  spec: VmSpec;
}

async function create(
  ctx: Context,
  { kind, hypervisor, targetDeviceId, vmName, spec }: Wanted,
  source: MachineSource,
  parts: VmRestoreParts,
) {
  const { snapshot } = source;
  if (hypervisor !== 'kvm') {
    throw new AppError('capability_missing', 'Snapshots become machines of KVM only, on devices with Linux.');
  }
  const device = await findHost(ctx, targetDeviceId ?? snapshot.deviceId, snapshot.orgId);
  const type = kind === 'as_vm' ? 'backup.vm-from-image' : 'backup.vm-instant-boot';
  deviceRequests.assertCanWork(parts.hub, device, { type, what: 'start virtual machines' });
  const rule =
    spec.targetPath === null ? undefined : restoreRules.targetPathFault(device.osType, spec.targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await assertFewOpen(ctx, device.id);
  const wanted = { id: newId(), vmName, spec, kind };
  const sent = await sendStart(ctx, wanted, { source, device }, parts);
  const restore = await VmRestore.query(ctx.tx).insertAndFetch({
    ...wanted,
    ...sent,
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId: snapshot.id,
    hypervisor,
    operation: kind === 'as_vm' ? 'restore' : 'boot',
    holdsSnapshot: kind === 'instant_boot',
    createdBy: ctx.caller.userId,
  });
  return toVmRestoreView(ctx, restore);
}

/** Backups of devices of one customer never reach a device of another one. */
async function findHost(ctx: Context, deviceId: string, orgId: string): Promise<CommandTarget> {
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device?.orgId !== orgId) {
    throw invalid('body.targetDeviceId', 'must be a device of the organization of the snapshot');
  }
  await assertManageable(ctx, orgId);
  return device;
}

async function assertFewOpen({ tx }: Context, deviceId: string): Promise<void> {
  const open = await VmRestore.query(tx).where('device_id', deviceId).whereNull('finished_at').resultSize();
  if (open >= OPEN_MAX) {
    throw new AppError('conflict', `${OPEN_MAX} machines of snapshots on this device are not finished.`);
  }
}

/** Gives the host the work, with what opens the repository. */
async function sendStart(
  ctx: Context,
  started: StartedVm,
  { source, device }: { source: MachineSource; device: CommandTarget },
  parts: VmRestoreParts,
) {
  const { repository, values, credentialId } = await restoreRules.accessForDevice(ctx, source, started.id);
  if (started.kind === 'instant_boot') {
    await extendCredential(ctx.tx, credentialId, new Date(clock.now() + HOLD_MS));
  }
  const order = startOrder(started, { ...source, repository });
  const limits = {
    ttlSeconds: restoreRules.RESTORE_TTL_SECONDS,
    secrets: { values, encryptor: parts.secrets },
  };
  return { ...(await send(ctx, device, { ...order, ...limits }, parts)), credentialId };
}

async function send(
  ctx: Context,
  device: CommandTarget,
  command: Parameters<typeof addCommands>[2],
  { hub }: Pick<VmRestoreParts, 'hub'>,
) {
  const [added] = await addCommands(ctx, [device], command, hub);
  if (added === undefined) throw new Error('no command was created');
  return { commandId: added.id, expiresAt: new Date(clock.now() + command.ttlSeconds * 1000) };
}

/** Instant boots whose machine may be there. */
export const listActive = (ctx: Context, query: ActiveQuery) =>
  list(ctx, { ...query, kind: 'instant_boot' }, (all) => all.whereNull('finished_at'));

/** All of them, also those that have ended. */
export const listVmRestores = (ctx: Context, query: VmRestoreQuery) => list(ctx, query, (all) => all);

type Restores = ReturnType<typeof accessible>;

/** The newest first. */
async function list(ctx: Context, query: VmRestoreQuery, narrow: (all: Restores) => Restores) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await narrow(accessible(ctx))
    .where(omitUndefined({ kind: query.kind, org_id: query.orgId, device_id: query.deviceId }))
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  return toPage(query, { results: await toVmRestoreViews(ctx.tx, results), total });
}

async function find(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<VmRestore> {
  const restore = await accessible(ctx).findById(id);
  if (restore === undefined) throw notFound('Virtual machine');
  return restore;
}

export const readVmRestore = async (ctx: Context, id: string) => toVmRestoreView(ctx, await find(ctx, id));

async function toVmRestoreView(ctx: Pick<Context, 'tx'>, restore: VmRestore) {
  const [one] = await toVmRestoreViews(ctx.tx, [restore]);
  if (one === undefined) throw new Error('one restore is shown as one');
  return one;
}

/** Locked, because two people may decide at the same time. */
async function findToChange(ctx: Context, id: string): Promise<VmRestore> {
  const { orgId } = await find(ctx, id);
  await assertManageable(ctx, orgId);
  const restore = await VmRestore.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  if (restore.finishedAt !== null) {
    throw new AppError('conflict', `This has already ended: ${restore.status}.`);
  }
  return restore;
}

/** Ends what has not produced a machine yet, or the copy of one that runs. */
export async function cancelVmRestore(ctx: Context, id: string, hub: DeviceHub) {
  const restore = await findToChange(ctx, id);
  if (!restore.isOperating || restore.operation === 'discard') {
    throw new AppError(
      'conflict',
      'Nothing is being done that could be cancelled. Discard the machine instead.',
    );
  }
  await cancelCommand(ctx, restore.commandId, hub);
  return readVmRestore(ctx, id);
}

const COPY_TTL_SECONDS = 3600;

/** Makes the machine of an instant boot one of its own, while it runs. */
export async function migrateBoot(ctx: Context, id: string, parts: VmRestoreParts) {
  const restore = await findToChange(ctx, id);
  assertIdle(restore);
  const device = await hostOf(ctx, restore, parts.hub, 'backup.vm-migrate');
  const timeoutSeconds = BACKUP_TIMEOUT_SECONDS;
  const command = { type: 'backup.vm-migrate' as const, payload: { restoreId: id, timeoutSeconds } };
  const sent = await send(ctx, device, { ...command, ttlSeconds: COPY_TTL_SECONDS }, parts);
  return operate(ctx, restore, { ...sent, operation: 'migrate' });
}

/** Ends a machine and removes what it has written. A host that is away does that when it returns. */
export async function discardBoot(ctx: Context, id: string, parts: VmRestoreParts) {
  const restore = await findToChange(ctx, id);
  if (restore.kind !== 'instant_boot') {
    throw new AppError('conflict', 'Only an instant boot can be discarded.');
  }
  if (restore.status === 'pending') {
    await cancelCommand(ctx, restore.commandId, parts.hub);
    return readVmRestore(ctx, id);
  }
  if (restore.isOperating && restore.operation !== 'migrate') assertIdle(restore);
  const device = await hostOf(ctx, restore, parts.hub, 'backup.vm-discard');
  const command = { type: 'backup.vm-discard' as const, payload: { restoreId: id } };
  const sent = await send(ctx, device, { ...command, ttlSeconds: restoreRules.RESTORE_TTL_SECONDS }, parts);
  return operate(ctx, restore, { ...sent, operation: 'discard' });
}

export async function prepareStart(
  ctx: DetachedContext,
  id: string,
  parts: VmRestoreParts,
  signal: AbortSignal,
): Promise<MachineSource> {
  const { snapshotId, spec } = await ctx.withTenant((tenant) => find(tenant, id));
  if (snapshotId === null) throw new AppError('conflict', 'The snapshot of this machine is gone.');
  return prepareVm(ctx, { snapshotId, machine: spec.machine }, parts, signal);
}

/** Starts a machine again that has stopped or lost its snapshot. It has everything that it has written. */
export async function startBoot(ctx: Context, id: string, source: MachineSource, parts: VmRestoreParts) {
  const restore = await findToChange(ctx, id);
  assertIdle(restore);
  const device = await hostOf(ctx, restore, parts.hub, 'backup.vm-instant-boot');
  const sent = await sendStart(ctx, restore, { source, device }, parts);
  return operate(ctx, restore, { ...sent, operation: 'boot' });
}

function assertIdle({ kind, status, isOperating, operation }: VmRestore): void {
  if (kind !== 'instant_boot') throw new AppError('conflict', 'This is not an instant boot.');
  if (isOperating || status !== 'active') {
    throw new AppError('conflict', `The host is still at work: ${operation}.`);
  }
}

async function hostOf(
  ctx: Context,
  { deviceId, orgId }: VmRestore,
  hub: DeviceHub,
  type: DurableCommandType,
): Promise<CommandTarget> {
  const device = await findHost(ctx, deviceId, orgId);
  deviceRequests.assertCanWork(hub, device, { type, what: 'start virtual machines' });
  return device;
}

async function operate(ctx: Context, restore: VmRestore, change: Partial<VmRestore>) {
  const again = await restore.$query(ctx.tx).patchAndFetch({
    ...change,
    isOperating: true,
    progress: null,
    errorCode: null,
    errorMessage: null,
  });
  return toVmRestoreView(ctx, again);
}

async function toVmRestoreViews(tx: Tx, restores: readonly VmRestore[]) {
  const ids = [...new Set(restores.map(({ deviceId }) => deviceId))];
  const hosts = await tx('devices')
    .whereIn('id', ids)
    .select<{ id: string; hostname: string }[]>('id', 'hostname');
  const names = new Map(hosts.map(({ id, hostname }) => [id, hostname]));
  return restores.map((restore) => toView(restore, names.get(restore.deviceId) ?? ''));
}

function toView(restore: VmRestore, hostDeviceName: string) {
  const { spec, errorCode, errorMessage, finishedAt, result, progress, ...rest } = restore;
  const facts = VmFacts.safeParse(result ?? {}).data ?? {};
  return {
    ...rest,
    status: statusOf(restore),
    hostDeviceId: rest.deviceId,
    hostDeviceName,
    vmSpecs: spec,
    network: spec.network,
    syncProgress: syncProgress(restore),
    progress,
    console: facts.console ?? null,
    forwards: facts.forwards ?? [],
    folder: facts.folder ?? null,
    accelerator: facts.accelerator ?? null,
    warnings: facts.warnings ?? [],
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    completedAt: finishedAt,
  };
}

function statusOf({
  status,
  operation,
  isOperating,
  vmState,
  kind,
}: VmRestore): (typeof VM_RESTORE_STATUSES)[number] {
  if (status === 'working') return kind === 'as_vm' ? 'restoring' : 'booting';
  if (status !== 'active') return status;
  if (isOperating && operation === 'migrate') return 'migrating';
  if (isOperating && operation === 'discard') return 'discarding';
  if (isOperating && operation === 'boot') return 'booting';
  return vmState ?? 'unknown';
}

function syncProgress({ status, operation, isOperating, progress }: VmRestore): number | null {
  if (status === 'completed') return 100;
  return isOperating && operation !== 'boot' ? (progress?.percent ?? null) : null;
}

import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS, type DurableCommandType } from '../../protocol/index.ts';
import { addCommands } from '../commands/index.ts';
import { type CommandTarget, commandTargets } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { assertCanWork } from './device-requests.ts';
import {
  accessForDevice,
  openSource,
  openVolumeSource,
  RESTORE_TTL_SECONDS,
  restoreOrder,
  type RestoreSource,
  targetPathFault,
  type VolumeReaders,
  type WantedRestore,
} from './restore-command.ts';
import { BackupRestore } from './restore.model.ts';
import { type NewRestore, RestoredDatabase, type RestoreQuery } from './restore.schema.ts';
import { addRestore, beginRestoreAgain } from './restore.work.ts';

export interface RestoreParts {
  hub: DeviceHub;
  work: WorkEngine;
  secrets: Encryptor;
  backupStore: VolumeReaders;
}

/** The source of a restore; `imagePath` if files come out of an image. */
export type OpenedSource = RestoreSource & { imagePath?: string };

/** A device does them one after another, and each opens a repository for a day. */
const OPEN_MAX = 20;

const accessible = ({ tx, caller }: Pick<Context, 'tx' | 'caller'>) =>
  BackupRestore.query(tx).whereRaw(inTenant(caller, 'backup_restores.org_id'));

/** Before the transaction of `createRestore`, because it reads from the store. */
export const prepareRestore = (
  ctx: DetachedContext,
  { snapshotId: id, asOf, selectedPaths, volume }: NewRestore,
  { backupStore }: RestoreParts,
  signal: AbortSignal,
): Promise<OpenedSource> => openAny(ctx, { id, asOf, selectedPaths }, { volume, backupStore, signal });

function openAny(
  ctx: DetachedContext,
  query: Parameters<typeof openSource>[1],
  {
    volume,
    backupStore,
    signal,
  }: { volume: NewRestore['volume'] | null; backupStore: VolumeReaders; signal: AbortSignal },
): Promise<OpenedSource> {
  return volume == null
    ? openSource(ctx, query, backupStore.readers)
    : openVolumeSource(ctx, { ...query, volume }, backupStore, signal);
}

/** A device that is offline begins when it returns. */
export async function createRestore(
  ctx: Context,
  { deviceId, targetPath, overwrite, dryRun, restoreType, disk, grow = false, ...what }: NewRestore,
  source: OpenedSource,
  parts: RestoreParts,
) {
  const { snapshot, asOf } = source;
  const image = restoreType === 'image' ? { ...omitUndefined({ disk }), grow } : null;
  if (image !== null && snapshot.backupType !== 'system_image') {
    throw invalid('body.restoreType', 'must not be image: the snapshot is none');
  }
  const volume = what.volume ?? null;
  const work = workOf({ image, volume }, parts);
  const device = await findRestoreTarget(ctx, deviceId ?? snapshot.deviceId, snapshot.orgId, work);
  const rule = targetPath === undefined ? undefined : targetPathFault(device.osType, targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await assertFewOpenRestores(ctx, device.id);
  const wanted = {
    id: newId(),
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId: snapshot.id,
    asOf,
    selectedPaths: what.selectedPaths ?? null,
    image,
    volume,
    targetPath: targetPath ?? null,
    fromPath: null,
    overwrite,
    dryRun,
  };
  const given = await send(ctx, wanted, { source, device }, parts);
  const restore = await addRestore(ctx.tx, { ...wanted, createdBy: ctx.caller.userId }, given);
  return toRestoreResponse(restore, parts.hub);
}

export async function listRestores(ctx: Context, query: RestoreQuery, hub: DeviceHub) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const restores = accessible(ctx)
    .where(
      omitUndefined({
        org_id: query.orgId,
        device_id: query.deviceId,
        snapshot_id: query.snapshotId,
        status: query.status,
      }),
    )
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.from !== undefined) void restores.where('created_at', '>=', query.from);
  if (query.to !== undefined) void restores.where('created_at', '<=', query.to);
  const { results, total } = await restores;
  return toPage(query, { results: results.map((restore) => toRestoreResponse(restore, hub)), total });
}

async function findRestore(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<BackupRestore> {
  const restore = await accessible(ctx).findById(id);
  if (restore === undefined) throw notFound('Restore');
  return restore;
}

export const readRestore = async (ctx: Context, id: string, hub: DeviceHub) =>
  toRestoreResponse(await findRestore(ctx, id), hub);

/** One that the device has not begun ends at once. A device that has begun stops, and reports that. */
export async function cancelRestore(ctx: Context, id: string, { hub, work }: RestoreParts) {
  const restore = await findRestore(ctx, id);
  await assertManageable(ctx, restore.orgId);
  if (restore.finishedAt !== null) throw hasEnded(restore);
  await work.cancel(ctx, id);
  const cancelled = await findRestore(ctx, id);
  ctx.recordChange({ status: restore.status }, { status: cancelled.status });
  return toRestoreResponse(cancelled, hub);
}

/** The source of a restore that is to be run again. */
export async function prepareRerun(
  ctx: DetachedContext,
  id: string,
  { backupStore }: RestoreParts,
  signal: AbortSignal,
): Promise<OpenedSource> {
  const { snapshotId, asOf, database, machine, volume } = await ctx.withTenant((tenant) =>
    findRestore(tenant, id),
  );
  if (database !== null) {
    throw new AppError(
      'conflict',
      'The restore of a database is not run again. Order a new one into an empty folder.',
    );
  }
  if (machine !== null) {
    throw new AppError('conflict', 'The restore of a machine is not run again. Order a new one.');
  }
  if (snapshotId === null) throw new AppError('conflict', 'The snapshot of this restore is gone.');
  const query = { id: snapshotId, ...(asOf === null ? {} : { asOf }) };
  return openAny(ctx, query, { volume, backupStore, signal });
}

/** Runs a restore again that did not succeed. The device goes on with what it had fetched. */
export async function rerunRestore(ctx: Context, id: string, source: OpenedSource, parts: RestoreParts) {
  const restore = await findRestore(ctx, id);
  if (restore.finishedAt === null) throw new AppError('conflict', 'The restore has not ended yet.');
  if (restore.status === 'completed') throw hasEnded(restore);
  const work = workOf(restore, parts);
  const device = await findRestoreTarget(ctx, restore.deviceId, source.snapshot.orgId, work);
  await assertFewOpenRestores(ctx, device.id);
  const given = await send(ctx, restore, { source, device }, parts);
  return toRestoreResponse(await beginRestoreAgain(ctx.tx, restore, given), parts.hub);
}

const hasEnded = ({ status }: BackupRestore) =>
  new AppError('conflict', `The restore has already ended: ${status}.`);

/** The capabilities that a device needs. */
function workOf(
  { image, volume }: Pick<BackupRestore, 'image' | 'volume'>,
  { hub }: Pick<RestoreParts, 'hub'>,
): { hub: DeviceHub; type: DurableCommandType; what: string } {
  if (image !== null) return { hub, type: 'backup.image-restore', what: 'restore images of disks' };
  return volume === null
    ? { hub, type: 'backup.restore', what: 'restore backups' }
    : { hub, type: 'backup.image-files-restore', what: 'restore files out of images' };
}

/** Backups of devices of one customer never reach a device of another one. */
export async function findRestoreTarget(
  ctx: Context,
  deviceId: string,
  orgId: string,
  { hub, ...work }: { hub: DeviceHub; type: DurableCommandType; what: string },
): Promise<CommandTarget> {
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device?.orgId !== orgId) {
    throw invalid('body.deviceId', 'must be a device of the organization of the snapshot');
  }
  await assertManageable(ctx, orgId);
  assertCanWork(hub, device, work);
  return device;
}

export async function assertFewOpenRestores({ tx }: Context, deviceId: string): Promise<void> {
  const open = await BackupRestore.query(tx)
    .where('device_id', deviceId)
    .whereNull('finished_at')
    .resultSize();
  if (open >= OPEN_MAX) {
    throw new AppError('conflict', `${OPEN_MAX} restores to this device have not ended yet.`);
  }
}

/** Gives the device the work, as a command of the ledger. */
async function send(
  ctx: Context,
  wanted: WantedRestore,
  { source, device }: { source: OpenedSource; device: CommandTarget },
  { hub, secrets: encryptor }: RestoreParts,
) {
  const { repository, values } = await accessForDevice(ctx, source, wanted.id);
  const shared = {
    restoreId: wanted.id,
    repository,
    snapshotId: source.snapshot.engineId,
    ...omitUndefined({ imagePath: source.imagePath }),
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
  };
  const limits = { ttlSeconds: RESTORE_TTL_SECONDS, secrets: { values, encryptor } };
  const [command] = await addCommands(ctx, [device], { ...restoreOrder(wanted, shared), ...limits }, hub);
  if (command === undefined) throw new Error('no command was created');
  return { command, ttlSeconds: RESTORE_TTL_SECONDS };
}

export function toRestoreResponse(restore: BackupRestore, hub: DeviceHub) {
  const { errorCode, errorMessage, restoredBytes, failedCount, failed, finishedAt, image, ...shown } =
    restore;
  const { database, databaseResult } = shown;
  return {
    ...shown,
    restoreType: restoreTypeOf(restore),
    disk: image?.disk ?? null,
    waitingFor: shown.status === 'pending' ? waitingFor(hub.live(shown.deviceId)) : null,
    restoredSize: restoredBytes,
    failed: { count: failedCount, paths: failed },
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    database:
      database === null
        ? null
        : { ...database, result: RestoredDatabase.safeParse(databaseResult).data ?? null },
    completedAt: finishedAt,
  };
}

function restoreTypeOf({ image, selectedPaths }: BackupRestore): 'image' | 'full' | 'selective' {
  if (image !== null) return 'image';
  return selectedPaths === null ? 'full' : 'selective';
}

const waitingFor = (live: ReturnType<DeviceHub['live']>): 'device' | 'turn' =>
  live?.isConnected === true ? 'turn' : 'device';

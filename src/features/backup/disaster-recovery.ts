// The port for disaster recovery: what its plans start, observe and end here, without a request.
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../protocol/index.ts';
import type { BackupRepository } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand, cancelServerCommand } from '../commands/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { addJob } from './add-job.ts';
import { BackupConfig } from './config.model.ts';
import { BackupJob } from './job.model.ts';
import { repositoryPassword } from './repository-access.ts';
import { accessForDevice, restoreOrder, type RestoreSource, targetPathFault } from './restore-command.ts';
import { BackupRestore } from './restore.model.ts';
import { addRestore } from './restore.work.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import type { JobSources } from './source.schema.ts';

/** Why work of a recovery plan cannot be given to a device. */
export class WorkRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'WorkRefused';
    this.code = code;
  }
}

export interface WorkDevice {
  id: string;
  orgId: string;
  osType: 'windows' | 'macos' | 'linux';
}

interface FileRestoreStart {
  snapshotId: string;
  device: WorkDevice;
  selectedPaths: string[] | null;
  /** Null: a new folder of the agent. */
  targetPath: string | null;
  /** The part of the snapshot that is restored to `targetPath` itself. */
  fromPath: string | null;
  overwrite: 'never' | 'ifNewer' | 'always';
  /** How long the command waits for its device. */
  ttlSeconds: number;
  createdBy: string | null;
}

/** Starts a restore of files without a request. After the commit, hand the command to `announceCommands`. */
export async function startFileRestore(
  tx: Tx,
  order: FileRestoreStart,
  secrets: Encryptor,
): Promise<{ restoreId: string; command: AddedCommand }> {
  const { snapshotId, device, selectedPaths, targetPath, fromPath, overwrite, createdBy } = order;
  const rule = targetPath === null ? undefined : targetPathFault(device.osType, targetPath);
  if (rule !== undefined) throw new WorkRefused('TARGET_UNSAFE', `The path ${targetPath} ${rule}.`);
  const source = await sourceOf(tx, { snapshotId, orgId: device.orgId }, secrets);
  const id = newId();
  const wanted = { id, selectedPaths, image: null, targetPath, fromPath, overwrite, dryRun: false };
  const { repository, values } = await accessForDevice({ tx }, source, id);
  const shared = {
    restoreId: id,
    repository,
    snapshotId: source.snapshot.engineId,
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
  };
  const command = await addServerCommand(tx, device, {
    ...restoreOrder(wanted, shared),
    ttlSeconds: order.ttlSeconds,
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
    secrets: { values, encryptor: secrets },
    createdBy,
  });
  const { id: deviceId, orgId } = device;
  await addRestore(
    tx,
    { ...wanted, orgId, deviceId, snapshotId, createdBy },
    { command, ttlSeconds: order.ttlSeconds },
  );
  return { restoreId: id, command };
}

interface JobStart {
  device: WorkDevice;
  /** The configuration by which the data was backed up before. */
  configId: string | null;
  ttlSeconds: number;
  createdBy: string | null;
}

/**
 * Starts a backup of paths of a device without a request. Returns `undefined` while another backup of the device by the
 * same configuration is in flight.
 */
export async function startBackup(
  tx: Tx,
  { paths, ...order }: JobStart & { paths: string[] },
  work: WorkEngine,
): Promise<string | undefined> {
  const configs = serverConfigs(tx, order).whereRaw(`coalesce(sources ->> 'kind', 'files') = 'files'`);
  const sources = { kind: 'files' as const, paths: { [order.device.osType]: paths } };
  const missing =
    'The organization has no backup configuration of files that stores its data on this server.';
  return addJobByPlan(tx, { ...order, configs, sources, missing }, work);
}

/** The same with a machine that the device has restored from a snapshot. It is shut down for that. */
export async function startMachineBackup(
  tx: Tx,
  { vmRestoreId, ...order }: JobStart & { vmRestoreId: string },
  work: WorkEngine,
): Promise<string | undefined> {
  const configs = serverConfigs(tx, order);
  const sources = { kind: 'restored' as const, vmRestoreId };
  const missing = 'The organization has no backup configuration that stores its data on this server.';
  return addJobByPlan(tx, { ...order, configs, sources, missing }, work);
}

/** The wanted configuration comes first. */
const serverConfigs = (tx: Tx, { device, configId }: Pick<JobStart, 'device' | 'configId'>) =>
  BackupConfig.query(tx)
    .where({ org_id: device.orgId, provider: 'server', enabled: true })
    .orderByRaw('id is not distinct from ?::uuid desc, is_default desc, id', [configId])
    .forShare();

interface PlannedJob extends JobStart {
  configs: ReturnType<typeof serverConfigs>;
  sources: JobSources;
  /** The message if no configuration fits. */
  missing: string;
}

async function addJobByPlan(
  tx: Tx,
  { device, configs, sources, missing, ttlSeconds, createdBy }: PlannedJob,
  work: WorkEngine,
): Promise<string | undefined> {
  const config = await configs.first();
  if (config === undefined) throw new WorkRefused('CONFIG_MISSING', missing);
  const waitMs = ttlSeconds * 1000;
  return addJob(tx, work, { device, config, sources, wantedType: null, waitMs, createdBy });
}

/**
 * Asks for the end of a restore of files. Returns what is to be called after the commit.
 */
export async function cancelFileRestore(tx: Tx, id: string, hub: DeviceHub): Promise<() => void> {
  const row = await BackupRestore.query(tx).findById(id);
  return row === undefined ? () => {} : (await cancelServerCommand(tx, row.commandId, hub)).announce;
}

/** The same for a backup. Returns `undefined` if it ends or is given to its device at this moment: ask again later. */
export async function cancelBackup(tx: Tx, id: string, work: WorkEngine): Promise<(() => void) | undefined> {
  const job = await BackupJob.query(tx).findById(id);
  const announcements: Parameters<Context['afterCommit']>[0][] = [];
  try {
    if (job?.finishedAt === null) {
      await work.cancel({ tx, afterCommit: (announce) => void announcements.push(announce) }, id);
    }
  } catch (error) {
    if (error instanceof AppError && error.code === 'conflict') return undefined;
    throw error;
  }
  return () => {
    for (const announce of announcements) void announce();
  };
}

/** The remains of a restore whose only purpose was to see that it works. */
export interface Discarded {
  device: { id: string; orgId: string };
  ttlSeconds: number;
  createdBy: string | null;
}

export const DISCARD_TIMEOUT_SECONDS = 300;

/** Removes the files of a restore to a folder of the agent. */
export const discardRestoredFiles = (
  tx: Tx,
  { restoreId, device, ttlSeconds, createdBy }: Discarded & { restoreId: string },
  secrets: Encryptor,
): Promise<AddedCommand> =>
  addServerCommand(tx, device, {
    type: 'recovery.discard-restore',
    payload: { restoreId },
    ttlSeconds,
    timeoutSeconds: DISCARD_TIMEOUT_SECONDS,
    secrets: { values: {}, encryptor: secrets },
    createdBy,
  });

/** How the work of a recovery action has ended. */
export type WorkEnd =
  | { outcome: 'failed' | 'cancelled'; code: string; message: string }
  | {
      outcome: 'succeeded';
      message: string;
      /** For files: the folder that holds them. */
      folder?: string | null;
      /** For a machine: its ports, and the ports of its host that lead to them. */
      forwards?: { hostPort: number; guestPort: number }[];
      /** For a backup. */
      snapshotId?: string;
    };

/** How restores of files have ended, by their id. A restore that has not ended is not in the map. */
export async function endsOfFileRestores(tx: Tx, ids: readonly string[]): Promise<Map<string, WorkEnd>> {
  if (ids.length === 0) return new Map();
  return endsById(ids, await BackupRestore.query(tx).whereIn('id', [...ids]), endOfFiles);
}

/** The same for backup jobs. */
export async function endsOfBackups(tx: Tx, ids: readonly string[]): Promise<Map<string, WorkEnd>> {
  if (ids.length === 0) return new Map();
  const jobs = await BackupJob.query(tx).whereIn('id', [...ids]);
  const snapshots = await BackupSnapshot.query(tx)
    .whereIn('job_id', [...ids])
    .whereNull('copy_of');
  const made = new Map(snapshots.map(({ jobId, id }) => [jobId, id]));
  return endsById(ids, jobs, (job) => endOfBackup(job, made.get(job.id)));
}

/** The ends of those that have one. A record that is not found counts as failed. */
export function endsById<Row extends { id: string }>(
  ids: readonly string[],
  rows: readonly Row[],
  endOf: (row: Row) => WorkEnd | undefined,
): Map<string, WorkEnd> {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const ends = new Map<string, WorkEnd>();
  for (const id of ids) {
    const row = byId.get(id);
    const end = row === undefined ? GONE : endOf(row);
    if (end !== undefined) ends.set(id, end);
  }
  return ends;
}

const GONE: WorkEnd = { outcome: 'failed', code: 'GONE', message: 'The record of this work was removed.' };

function endOfFiles(restore: BackupRestore): WorkEnd | undefined {
  const { finishedAt, status, restoredFiles, failedCount, targetPath } = restore;
  if (finishedAt === null) return undefined;
  if (status === 'completed' || status === 'partial') {
    const failed = Number(failedCount);
    const missing = failed === 0 ? '' : ` ${failed} could not be restored.`;
    return {
      outcome: 'succeeded',
      message: `${restoredFiles ?? 0} files were restored.${missing}`,
      folder: targetPath,
    };
  }
  return badEnd(status, restore);
}

function endOfBackup(job: BackupJob, snapshotId: string | undefined): WorkEnd | undefined {
  if (job.finishedAt === null) return undefined;
  if (job.status !== 'completed' && job.status !== 'partial') return badEnd(job.status, job);
  if (snapshotId === undefined) {
    return { outcome: 'failed', code: 'SNAPSHOT_MISSING', message: 'The backup has made no snapshot.' };
  }
  return { outcome: 'succeeded', message: 'The data was backed up.', snapshotId };
}

/** The end of a record that failed or was cancelled. */
export const badEnd = (
  status: string,
  { errorCode, errorMessage }: { errorCode: string | null; errorMessage: string | null },
): WorkEnd => ({
  outcome: status === 'cancelled' ? 'cancelled' : 'failed',
  code: errorCode ?? status.toUpperCase(),
  message: errorMessage ?? (status === 'cancelled' ? 'It was cancelled.' : 'It failed.'),
});

/** A snapshot with what opens its repository, which is not read: no request waits for it. Throws `WorkRefused`. */
export async function sourceOf(
  tx: Tx,
  { snapshotId, orgId }: { snapshotId: string; orgId: string },
  encryptor: Encryptor,
): Promise<RestoreSource> {
  const { snapshot, repository } = await storedSnapshot(tx, { snapshotId, orgId });
  return { snapshot, repository, asOf: null, access: await repositoryPassword(tx, repository, encryptor) };
}

/** A snapshot and its repository, in the store of this server. Throws `WorkRefused`. */
export async function storedSnapshot(
  tx: Tx,
  { snapshotId, orgId }: { snapshotId: string; orgId: string },
): Promise<{ snapshot: BackupSnapshot; repository: BackupRepository }> {
  const snapshot = await BackupSnapshot.query(tx)
    .findById(snapshotId)
    .where('org_id', orgId)
    .withGraphFetched('repository');
  if (snapshot === undefined || snapshot.removedAt !== null) {
    throw new WorkRefused('SNAPSHOT_GONE', 'The snapshot was removed.');
  }
  const { repository } = snapshot;
  if (repository?.provider !== 'server') {
    throw new WorkRefused('NOT_ON_SERVER', 'The data of the snapshot is not on this server.');
  }
  return { snapshot, repository };
}

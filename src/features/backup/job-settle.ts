import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { BackupResult, shortened } from '../../protocol/index.ts';
import {
  BackupRepository,
  bytesWrittenWith,
  endCredential,
  recordDestinationSpace,
  snapshotWrittenWith,
} from '../backup-store/index.ts';
import { type EndedCommand, findEndOfCommand } from '../commands/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { BackupJob } from './job.model.ts';
import { sourcesThatHadFiles } from './job.queries.ts';
import { BackupSnapshot, writtenInstant, writtenPaths } from './snapshot.model.ts';
import { sourceOfCommand, type SourceWork } from './source-kinds.ts';
import { addSyncsAfterBackup } from './vault-sync.ts';

const MESSAGE_MAX = 2000;

/** The part of a job's progress that describes this moment. */
const NOT_MOVING = { rate: null, etaSeconds: null, currentPath: null, stalledSince: null };

/** Ends a job that made no snapshot. Its device can write nothing more. */
export async function failJob(tx: Tx, job: BackupJob, code: string, message: string): Promise<void> {
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  await job.$query(tx).patch({
    status: 'failed',
    errorCode: code.slice(0, 64),
    errorMessage: shortened(message, MESSAGE_MAX),
    ...NOT_MOVING,
    finishedAt: clock.date(),
  });
}

export async function cancelJobNow(tx: Tx, job: BackupJob): Promise<void> {
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  const at = clock.date();
  await job.$query(tx).patch({
    status: 'cancelled',
    cancelRequestedAt: job.cancelRequestedAt ?? at,
    ...NOT_MOVING,
    finishedAt: at,
  });
}

// The end of a backup job: from the result of its command and from what the store has received.

const LateResult = z.object({ status: z.literal('succeeded'), output: BackupResult });

/** The command of the device, and its report, if there is one. */
interface Made {
  source: SourceWork;
  output: BackupResult | undefined;
  paths: string[];
}

/** Sentences for commands that have ended without a word of the device. */
const SILENT_ENDS = {
  timed_out: ['TIMED_OUT', 'The device has not reported the result of the backup in time.'],
  expired: ['NOT_SENT', 'The device was not connected when the backup was to be sent.'],
} as const;

export type Settled = 'open' | 'waits_again' | 'ended' | 'nothing';

/** Can be repeated. `waits_again`: the device never got the job, which now waits for it again. */
export async function settleJob(
  tx: Tx,
  work: WorkEngine,
  { jobId, commandId }: { jobId: string; commandId: string },
): Promise<Settled> {
  const job = await BackupJob.query(tx).findById(jobId).where('command_id', commandId).forUpdate();
  if (job === undefined) return 'nothing';
  const command = await findEndOfCommand(tx, commandId);
  if (command === undefined) return 'open';
  const output = outputOf(command);
  if (job.finishedAt !== null && (output === undefined || command.lateResult === null)) return 'nothing';
  const source = sourceOfCommand(command.type);
  const paths = source.pathsOf(command.payload);
  if (output !== undefined) return completeJob(tx, work, job, { source, output, paths });
  if (command.status === 'expired' && job.cancelRequestedAt === null) return waitAgain(tx, job);
  // The device may have made a snapshot, and failed to say so.
  await recordSnapshot(tx, job, { source, output: undefined, paths });
  if (command.status === 'cancelled') {
    await cancelJobNow(tx, job);
    return 'ended';
  }
  const { code, message } = failureOf(command);
  if (code === 'DESTINATION_FULL') await recordDestinationSpace(tx, job.repositoryId, { freeBytes: 0 });
  await failJob(tx, job, code, message);
  return 'ended';
}

/** The report of the device about a backup that succeeded, in time or late. */
function outputOf({ status, output, lateResult }: EndedCommand): BackupResult | undefined {
  if (status === 'succeeded') return BackupResult.parse(output);
  return LateResult.safeParse(lateResult).data?.output;
}

function failureOf({ status, error }: EndedCommand): { code: string; message: string } {
  if (error !== null) return error;
  const [code, message] = status === 'timed_out' || status === 'expired' ? SILENT_ENDS[status] : UNKNOWN;
  return { code, message };
}
const UNKNOWN = ['UNKNOWN', 'The device has not said why the backup failed.'] as const;

async function completeJob(
  tx: Tx,
  work: WorkEngine,
  job: BackupJob,
  made: Made & { output: BackupResult },
): Promise<Settled> {
  const { output } = made;
  const snapshot = await recordSnapshot(tx, job, made);
  if (snapshot === undefined) {
    await failJob(
      tx,
      job,
      'SNAPSHOT_MISSING',
      'The device has reported a backup whose snapshot has not arrived.',
    );
    return 'ended';
  }
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  await recordDestinationSpace(tx, job.repositoryId, output.destinationRoom);
  await addSyncsAfterBackup(tx, work, snapshot.repositoryId);
  const { repositoryId, engineId } = snapshot;
  const missing = await missingFiles(tx, { repositoryId, snapshotName: engineId }, output);
  if (missing !== undefined) await snapshot.$query(tx).patch({ isPartial: true, lacksFiles: true });
  const { status, bytesAdded, bytesProcessed, unreadable, leftOut = null, shadowCopies = null } = output;
  const files = output.filesNew + output.filesChanged + output.filesUnmodified;
  await job.$query(tx).patch({
    status: missing === undefined ? status : 'partial',
    percent: 100,
    addedBytes: String(bytesAdded),
    doneBytes: String(bytesProcessed),
    totalBytes: String(bytesProcessed),
    doneFiles: String(files),
    totalFiles: String(files),
    ...NOT_MOVING,
    errorCode: missing?.code ?? null,
    errorMessage: missing?.message ?? null,
    unreadableCount: unreadable.count,
    unreadable: unreadable.paths,
    leftOut,
    shadowCopies,
    finishedAt: job.finishedAt ?? clock.date(),
  });
  return 'ended';
}

/** A later round gives the job to its device again. */
async function waitAgain(tx: Tx, job: BackupJob): Promise<Settled> {
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  await job.$query(tx).patch({
    status: 'pending',
    commandId: null,
    credentialId: null,
    startedAt: null,
    ...NOT_MOVING,
  });
  return 'waits_again';
}

/**
 * Records the snapshot of a job. Of the backup store only what has arrived counts, and when it has; elsewhere there is
 * the word of the device. `undefined`: there is none.
 */
async function recordSnapshot(
  tx: Tx,
  job: BackupJob,
  { source, output, paths }: Made,
): Promise<BackupSnapshot | undefined> {
  const { repositoryId, credentialId } = job;
  if (repositoryId === null) return undefined;
  const repository = await BackupRepository.query(tx).findById(repositoryId);
  if (repository === undefined) return undefined;
  const arrived =
    repository.provider === 'server'
      ? credentialId === null
        ? undefined
        : await snapshotWrittenWith(tx, { repositoryId, credentialId })
      : arrivedElsewhere(output);
  if (arrived === undefined) return undefined;
  if (typeof output?.snapshotId === 'string' && output.snapshotId !== arrived.name) return undefined;
  const known = await BackupSnapshot.query(tx).findOne({
    repository_id: repositoryId,
    engine_id: arrived.name,
  });
  const facts = {
    jobId: job.id,
    backupType: source.backupType,
    ...(repository.provider === 'server' && credentialId !== null
      ? { receivedBytes: await bytesWrittenWith(tx, { repositoryId, credentialId }) }
      : {}),
    isPartial: output?.status !== 'completed',
    paths: writtenPaths(paths),
    ...(output?.takenAt === undefined ? {} : { takenAt: writtenInstant(output.takenAt) }),
    ...(output === undefined
      ? {}
      : {
          sizeBytes: String(output.bytesProcessed),
          fileCount: String(output.filesNew + output.filesChanged + output.filesUnmodified),
          addedBytes: String(output.bytesAdded),
          changedFiles: String(output.filesNew + output.filesChanged),
          emptySources: output.emptySources ?? null,
          details: output.details ?? null,
        }),
  };
  if (known !== undefined) return known.$query(tx).patchAndFetch(facts);
  return BackupSnapshot.query(tx).insertAndFetch({
    orgId: repository.orgId,
    deviceId: repository.deviceId,
    configId: job.configId,
    repositoryId,
    engineId: arrived.name,
    receivedAt: arrived.arrivedAt,
    ...facts,
  });
}

const arrivedElsewhere = (output: BackupResult | undefined) =>
  output === undefined || output.snapshotId === null
    ? undefined
    : { name: output.snapshotId, arrivedAt: clock.date() };

/** Why a backup that has succeeded lacks files: a disk was not mounted, or everything is excluded. */
interface MissingFiles {
  code: 'BACKUP_EMPTY';
  message: string;
}

const NAMED_MAX = 5;

const NAME_MAX = 300;

/**
 * Why the snapshot lacks files; `undefined`: nothing says that it does. A source that has become empty counts for as long
 * as a snapshot is kept that has files of it.
 */
async function missingFiles(
  tx: Tx,
  { repositoryId, snapshotName }: { repositoryId: string; snapshotName: string },
  { filesNew, filesChanged, filesUnmodified, emptySources = [] }: BackupResult,
): Promise<MissingFiles | undefined> {
  if (filesNew + filesChanged + filesUnmodified === 0) {
    const where = emptySources.length === 0 ? 'everything was excluded' : `${named(emptySources)} had none`;
    return { code: 'BACKUP_EMPTY', message: `The snapshot has no files: ${where}.` };
  }
  const emptied = await sourcesThatHadFiles(tx, { repositoryId, snapshotName }, emptySources);
  if (emptied.length === 0) return undefined;
  return {
    code: 'BACKUP_EMPTY',
    message: `The snapshot has no files of ${named(emptied)}, and earlier ones have. Is a disk not mounted there?`,
  };
}

function named(sources: readonly string[]): string {
  const more = sources.length > NAMED_MAX ? ` and ${sources.length - NAMED_MAX} more` : '';
  const first = sources.slice(0, NAMED_MAX).map((source) => shortened(source, NAME_MAX));
  return first.join(', ') + more;
}

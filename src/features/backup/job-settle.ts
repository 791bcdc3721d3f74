import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { z } from 'zod';
import { BackupResult } from '../../../protocol/index.ts';
import { type EndedCommand, findEndOfCommand } from '../../commands/index.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { noteDestinationRoom } from '../repositories/repository.service.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { writtenInstant, writtenPaths } from '../snapshots/written-facts.ts';
import { addSyncsAfterBackup } from '../vault-syncs/add-syncs.ts';
import { bytesWrittenWith, snapshotWrittenWith } from '../store/records/objects.ts';
import { endCredential } from '../store/records/credentials.ts';
import { sourceOfCommand, type SourceWork } from '../sources/index.ts';
import { BackupJob } from './job.model.ts';
import { cancelJobNow, failJob, NOT_MOVING } from './job-end.ts';
import { missingFiles } from './missing-files.ts';

/** The end of a backup job, from the end of its command and from what the store has received. */

const LateResult = z.object({ status: z.literal('succeeded'), output: BackupResult });

/** What the device was told to back up, and what it has reported, where it has. */
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
  if (output !== undefined) return completeJob(tx, job, { source, output, paths });
  if (command.status === 'expired' && job.cancelRequestedAt === null) return waitAgain(tx, job);
  // The device may have made a snapshot, and failed to say so.
  await recordSnapshot(tx, job, { source, output: undefined, paths });
  if (command.status === 'cancelled') {
    await cancelJobNow(tx, job);
    return 'ended';
  }
  const { code, message } = failureOf(command);
  if (code === 'DESTINATION_FULL') await noteDestinationRoom(tx, job.repositoryId, { freeBytes: 0 });
  await failJob(tx, job, code, message);
  return 'ended';
}

/** What the device has reported of a backup that succeeded, in time or late. */
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

async function completeJob(tx: Tx, job: BackupJob, made: Made & { output: BackupResult }): Promise<Settled> {
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
  await noteDestinationRoom(tx, job.repositoryId, output.destinationRoom);
  await addSyncsAfterBackup(tx, snapshot.repositoryId);
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

// The end of a backup job: from the result of its command and from what the store has received.
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { BackupResult, shortened } from '../../protocol/index.ts';
import {
  BackupRepository,
  bytesWrittenWith,
  endCredentialsOfJob,
  recordDestinationSpace,
  snapshotWrittenWith,
} from '../backup-store/index.ts';
import type { EndedCommand } from '../commands/index.ts';
import {
  endOfCommand,
  type StepOutcome,
  type WorkEnd,
  type WorkEngine,
  type WorkItem,
  type WorkRun,
} from '../work/index.ts';
import { BackupJobFacts } from './job.model.ts';
import { sourcesThatHadFiles } from './job.queries.ts';
import { REINDEX } from './maintenance.work.ts';
import { BackupSnapshot, writtenInstant, writtenPaths } from './snapshot.model.ts';
import { sourceOfCommand } from './source-kinds.ts';
import { addSyncsAfterBackup } from './vault-sync.ts';

const LateResult = z.object({ status: z.literal('succeeded'), output: BackupResult });

/** For `settleJob`: what has come of the command of a job. */
const Made = z.object({
  commandId: z.uuid(),
  /** The type of the command. */
  type: z.string(),
  paths: z.array(z.string()),
  /** The snapshot, by its name in the engine. Left out: there is none. */
  arrived: z.object({ name: z.string(), arrivedAt: z.date() }).optional(),
  /** The report of the device. Left out: it has not reported a snapshot. */
  output: BackupResult.optional(),
  isDestinationFull: z.boolean(),
});
type Made = z.infer<typeof Made>;

const TIMED_OUT = {
  code: 'TIMED_OUT',
  message: 'The device has not reported the result of the backup in time.',
};
const UNKNOWN = { code: 'UNKNOWN', message: 'The device has not said why the backup failed.' };

/** A job whose command was never sent waits for its device again. */
export const recordJob = (db: Db, run: WorkRun): Promise<StepOutcome> =>
  withSystem(db, 'judge the end of a backup', async (tx) => {
    const command = await endOfCommand(tx, run);
    if (command.status === 'expired' && outputOf(command) === undefined) {
      await run.hold(tx);
      await endCredentialsOfJob(tx, run.id);
      return { restart: true };
    }
    return { end: await judge(tx, run, command) };
  });

/** A device can report its backup after the time limit of the command. */
export const recordLateJob = (db: Db, run: WorkRun): Promise<{ end: WorkEnd } | undefined> =>
  withSystem(db, 'judge the late end of a backup', async (tx) => {
    const command = await endOfCommand(tx, run);
    return outputOf(command) === undefined ? undefined : { end: await judge(tx, run, command) };
  });

/** The report of the device about a backup that succeeded, in time or late. */
function outputOf({ status, output, lateResult }: EndedCommand): BackupResult | undefined {
  if (status === 'succeeded') return BackupResult.parse(output);
  return LateResult.safeParse(lateResult).data?.output;
}

async function judge(tx: Tx, { id, commandId }: WorkRun, command: EndedCommand): Promise<WorkEnd> {
  const { repositoryId, credentialId } = await BackupJobFacts.query(tx).findById(id).throwIfNotFound();
  const output = outputOf(command);
  const arrived = await arrivedSnapshot(tx, { repositoryId, credentialId, output });
  const silentEnd = command.status === 'timed_out' ? TIMED_OUT : UNKNOWN;
  const error = output === undefined ? (command.error ?? silentEnd) : undefined;
  const result = {
    commandId,
    type: command.type,
    paths: sourceOfCommand(command.type).pathsOf(command.payload),
    arrived,
    output,
    isDestinationFull: error?.code === 'DESTINATION_FULL',
  };
  if (error !== undefined) {
    // The device may have made a snapshot, and failed to say so.
    return command.status === 'cancelled'
      ? { status: 'cancelled', result }
      : { status: 'failed', ...error, result };
  }
  if (output === undefined || arrived === undefined || repositoryId === null) {
    const message = 'The device has reported a backup whose snapshot has not arrived.';
    return { status: 'failed', code: 'SNAPSHOT_MISSING', message, result };
  }
  const missing = await missingFiles(tx, { repositoryId, snapshotName: arrived.name }, output);
  return missing === undefined
    ? { status: output.status, result }
    : { status: 'partial', ...missing, result };
}

/**
 * The snapshot of a job. Of the backup store only what has arrived counts, and when it has; elsewhere there is the word of
 * the device. `undefined`: there is none.
 */
async function arrivedSnapshot(
  tx: Tx,
  {
    repositoryId,
    credentialId,
    output,
  }: Pick<BackupJobFacts, 'repositoryId' | 'credentialId'> & { output: BackupResult | undefined },
): Promise<Made['arrived']> {
  const repository =
    repositoryId === null ? undefined : await BackupRepository.query(tx).findById(repositoryId);
  if (repository === undefined) return undefined;
  if (repository.provider !== 'server') return arrivedElsewhere(output);
  if (credentialId === null) return undefined;
  const arrived = await snapshotWrittenWith(tx, { repositoryId: repository.id, credentialId });
  const isOther = typeof output?.snapshotId === 'string' && output.snapshotId !== arrived?.name;
  return isOther ? undefined : arrived;
}

const arrivedElsewhere = (output: BackupResult | undefined): Made['arrived'] =>
  output === undefined || output.snapshotId === null
    ? undefined
    : { name: output.snapshotId, arrivedAt: clock.date() };

interface SettleParts {
  work: WorkEngine;
  jobs: Pick<Jobs, 'enqueue'>;
}

/** The device can write nothing more. */
export async function settleJob(
  tx: Tx,
  { work, jobs }: SettleParts,
  { id }: WorkItem,
  { status, code, result }: WorkEnd,
): Promise<void> {
  await endCredentialsOfJob(tx, id);
  if (result === undefined) return;
  const made = Made.parse(result);
  const job = await BackupJobFacts.query(tx).findById(id).throwIfNotFound();
  const { repositoryId } = job;
  const hasFailed = status === 'failed' || status === 'cancelled';
  const lacksFiles = code === 'BACKUP_EMPTY';
  const repository =
    repositoryId === null ? undefined : await BackupRepository.query(tx).findById(repositoryId);
  if (repository !== undefined) await recordSnapshot(tx, { job, repository, made, lacksFiles });
  if (made.isDestinationFull) await recordDestinationSpace(tx, repositoryId, { freeBytes: 0 });
  // The next backup finds the data of one without a snapshot, if the index names it.
  if (hasFailed && repositoryId !== null) {
    await jobs.enqueue(tx, REINDEX, { repositoryId }, { key: made.commandId });
  }
  const { output } = made;
  if (hasFailed || output === undefined || repositoryId === null) return;
  await recordDestinationSpace(tx, repositoryId, output.destinationRoom);
  await addSyncsAfterBackup(tx, work, repositoryId);
  const { bytesAdded, bytesProcessed, unreadable, leftOut = null, shadowCopies = null } = output;
  await BackupJobFacts.query(tx)
    .findById(id)
    .patch({
      addedBytes: String(bytesAdded),
      processedBytes: String(bytesProcessed),
      processedFiles: String(output.filesNew + output.filesChanged + output.filesUnmodified),
      unreadableCount: unreadable.count,
      unreadable: unreadable.paths,
      leftOut,
      shadowCopies,
    });
}

interface Recorded {
  job: BackupJobFacts;
  repository: BackupRepository;
  made: Made;
  lacksFiles: boolean;
}

async function recordSnapshot(tx: Tx, { job, repository, made, lacksFiles }: Recorded): Promise<void> {
  const { type, paths, arrived, output } = made;
  if (arrived === undefined) return;
  const { id: repositoryId, provider, orgId, deviceId } = repository;
  const { credentialId, configId } = job;
  const facts = {
    jobId: job.id,
    backupType: sourceOfCommand(type).backupType,
    ...(provider === 'server' && credentialId !== null
      ? { receivedBytes: await bytesWrittenWith(tx, { repositoryId, credentialId }) }
      : {}),
    isPartial: lacksFiles || output?.status !== 'completed',
    ...(lacksFiles ? { lacksFiles } : {}),
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
  const engineId = arrived.name;
  const known = await BackupSnapshot.query(tx).findOne({ repository_id: repositoryId, engine_id: engineId });
  if (known !== undefined) await known.$query(tx).patch(facts);
  else {
    await BackupSnapshot.query(tx).insert({
      orgId,
      deviceId,
      configId,
      repositoryId,
      engineId,
      receivedAt: arrived.arrivedAt,
      ...facts,
    });
  }
}

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

import { z } from 'zod';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { endCredentialsOfJob } from '../backup-store/index.ts';
import type { AddedCommand, EndedCommand } from '../commands/index.ts';
import {
  defineWork,
  endOfCommand,
  giveWork,
  giveWorkAgain,
  type StepOutcome,
  type WorkEnd,
  type WorkEngine,
  type WorkItem,
  type WorkRun,
} from '../work/index.ts';
import { RESTORE_TTL_SECONDS } from './restore-command.ts';
import { BackupRestore, RestoreFacts } from './restore.model.ts';

/** A restore that a device was given with its request: what it reports is recorded. */
export const RESTORE = defineWork({
  kind: 'restore',
  input: z.object({}),
  steps: ['record'],
  limits: { inProcess: 8 },
  attempts: 10,
  deadlineMs: RESTORE_TTL_SECONDS * 1000,
  runsOnServer: false,
  commands: [
    'backup.restore',
    'backup.image-restore',
    'backup.image-files-restore',
    'backup.database-restore',
    'backup.vm-restore',
  ],
});

type NewRestore = Pick<RestoreFacts, 'id' | 'orgId' | 'snapshotId' | 'targetPath' | 'overwrite'> &
  Partial<RestoreFacts> & { deviceId: string; createdBy: string | null };

interface GivenCommand {
  command: Pick<AddedCommand, 'id'>;
  /** How long the command waits for its device. */
  ttlSeconds: number;
}

/** Adds a restore together with the command that its device is given, which names the restore already. */
export async function addRestore(
  tx: Tx,
  { deviceId, createdBy, ...facts }: NewRestore,
  { command, ttlSeconds }: GivenCommand,
): Promise<BackupRestore> {
  const { id, orgId } = facts;
  const deadlineMs = ttlSeconds * 1000;
  await giveWork(tx, RESTORE, {}, { id, orgId, deviceId, createdBy, deadlineMs, command, step: 'record' });
  await RestoreFacts.query(tx).insert(facts);
  return BackupRestore.query(tx).findById(id).throwIfNotFound();
}

/** @throws AppError `conflict` if the restore has not ended */
export async function beginRestoreAgain(
  tx: Tx,
  { id, attempts }: Pick<BackupRestore, 'id' | 'attempts'>,
  { command, ttlSeconds }: GivenCommand,
): Promise<BackupRestore> {
  await giveWorkAgain(tx, id, RESTORE, { command, step: 'record', deadlineMs: ttlSeconds * 1000 });
  await RestoreFacts.query(tx)
    .findById(id)
    .patch({ attempts: attempts + 1 });
  return BackupRestore.query(tx).findById(id).throwIfNotFound();
}

export function addRestoreWork({ work, db }: { work: WorkEngine; db: Db }): void {
  work.add(RESTORE, {
    steps: { record: (run) => record(db, run) },
    late: (run) => recordLate(db, run),
    settle,
  });
}

/** The fields that the reports of all kinds of restores have. */
const Report = z.object({
  status: z.enum(['completed', 'partial']),
  targetPath: z.string().nullish(),
  filesRestored: z.number().nullish(),
  bytesRestored: z.number().nullish(),
  filesSkipped: z.number().nullish(),
  failed: z
    .object({ count: z.number(), paths: z.array(z.object({ path: z.string(), message: z.string() })) })
    .nullish(),
  database: z.unknown().optional(),
});
const LateResult = z.object({ status: z.literal('succeeded'), output: Report });

async function record(db: Db, run: WorkRun): Promise<StepOutcome> {
  const command = await readEnd(db, run);
  if (command.status === 'succeeded') return { end: endOf(Report.parse(command.output)) };
  if (command.status === 'cancelled') return { end: { status: 'cancelled' } };
  const { error, status } = command;
  const code = error?.code ?? status.toUpperCase();
  return { end: { status: 'failed', code, message: error?.message ?? silentEnd(command) } };
}

/** A device can report a restore after the time limit of its command. */
async function recordLate(db: Db, run: WorkRun): Promise<{ end: WorkEnd } | undefined> {
  const { data } = LateResult.safeParse((await readEnd(db, run)).lateResult);
  return data === undefined ? undefined : { end: endOf(data.output) };
}

const endOf = (report: z.infer<typeof Report>): WorkEnd => ({ status: report.status, result: report });

const readEnd = (db: Db, run: WorkRun): Promise<EndedCommand> =>
  withSystem(db, 'read the end of a restore', (tx) => endOfCommand(tx, run));

/** For commands that have ended without a word of the device. */
function silentEnd({ status, reason }: EndedCommand): string {
  if (status === 'expired') return 'The device did not connect before the restore expired.';
  return reason === 'no_receipt'
    ? 'The device was sent the restore and has not confirmed it.'
    : 'The device has not reported the result of the restore in time.';
}

/** The device can read the repository no more. */
async function settle(tx: Tx, { id }: WorkItem, { result }: WorkEnd): Promise<void> {
  await endCredentialsOfJob(tx, id);
  if (result === undefined) return;
  const { targetPath, filesRestored, bytesRestored, filesSkipped, failed, database } = Report.parse(result);
  const text = (count: number | null | undefined) => (count == null ? undefined : String(count));
  await RestoreFacts.query(tx)
    .findById(id)
    .patch(
      omitUndefined({
        targetPath: targetPath ?? undefined,
        restoredFiles: text(filesRestored),
        restoredBytes: text(bytesRestored),
        skippedFiles: text(filesSkipped),
        failedCount: text(failed?.count),
        failed: failed?.paths,
        databaseResult: database,
      }),
    );
}

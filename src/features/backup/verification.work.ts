import { z } from 'zod';
import { clock } from '../../clock.ts';
import { checkRepository, EngineError } from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { BackupRepository, endCredentialsOfJob, holdTrash } from '../backup-store/index.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import {
  endOfCommand,
  PermanentWorkFailure,
  type StepOutcome,
  type WorkEngine,
  type WorkRun,
} from '../work/index.ts';
import { dueVerifications } from './snapshot.queries.ts';
import { BackupVerification, VerificationFacts } from './protection.model.ts';
import { type RepositoryAccessParts, withRepository } from './repository-access.ts';
import { beginTestRestore, judgeTestRestore, type TestRestoreParts } from './test-restore.ts';
import { Verdict } from './verification.schema.ts';
import { addVerification, VERIFICATION } from './verification.service.ts';

const PART_BYTES = 4 * 2 ** 30;
const PARTS_MAX = 14;

/** Parts of about 4 GiB, and at most 14, so that two weeks of daily verifications read everything. */
const partsFor = (storedBytes: number): number =>
  Math.min(PARTS_MAX, Math.max(1, Math.ceil(storedBytes / PART_BYTES)));

/**
 * Checks the structure of the repository and reads the next part of its data. It looks at the repository as it is at this
 * moment, so that a backup that goes on meanwhile neither disturbs it nor is disturbed.
 */
async function verifyIntegrity(
  parts: RepositoryAccessParts,
  repository: BackupRepository,
  signal: AbortSignal,
): Promise<Verdict> {
  const { id: repositoryId, readParts, readPartsDone } = repository;
  const begins = readParts === 0 || readPartsDone >= readParts;
  const of = begins ? partsFor(Number(repository.storedBytes)) : readParts;
  const read = { part: begins ? 1 : readPartsDone + 1, of };
  const { isSound, errors, isCut } = await withRepository(
    parts,
    { repositoryId, role: 'as-of', asOf: clock.date() },
    (engine, opened) => checkRepository(engine, opened, { read }, { signal }),
  );
  await withSystem(parts.db, 'note how much of a repository was read', (tx) =>
    noteRead(repository, read, isSound)(tx),
  );
  return {
    status: isSound ? 'passed' : 'failed',
    details: { part: read, errors, ...(isCut ? { errorsAreCut: true } : {}) },
  };
}

/**
 * A round in which every part was sound proves what a prune before it has left, so that what it deleted may go. Parts of
 * a round that a prune has interrupted prove nothing.
 */
const noteRead =
  (
    { id, prunedAt, trashHeldAt }: BackupRepository,
    { part, of }: { part: number; of: number },
    isSound: boolean,
  ) =>
  async (tx: Parameters<typeof holdTrash>[0]): Promise<void> => {
    const isWhole = isSound && part === of;
    const changed = await BackupRepository.query(tx)
      .findById(id)
      .whereRaw('pruned_at is not distinct from ?', [prunedAt])
      .patch({
        readParts: of,
        readPartsDone: isSound ? part : 0,
        ...(isWhole ? { readWholeSince: clock.date() } : {}),
      });
    if (changed > 0 && isWhole && trashHeldAt !== null) await holdTrash(tx, id, false);
  };

const SWEEP = defineJob({
  name: 'backup.verification-sweep',
  input: z.object({}),
  attempts: 1,
  inCluster: 1,
});

export interface VerificationWorkParts extends TestRestoreParts {
  jobs: Jobs;
  work: WorkEngine;
}

export function addVerificationWork(parts: VerificationWorkParts): void {
  const { jobs, work, db } = parts;
  work.add(VERIFICATION, {
    steps: { verify: (run) => verify(parts, run), judge: (run) => judge(db, run) },
    settle: (tx, { id }, { result }) => storeFacts(tx, id, Found.parse(result)),
  });
  jobs.handle(SWEEP, () => sweep(work, db));
  jobs.schedule(SWEEP, { cron: '25 * * * *', timeZone: 'UTC' }, {});
}

/** A failure of the engine ends the verification with its code; any other failure is tried again. */
async function verify(parts: VerificationWorkParts, { id, signal }: WorkRun): Promise<StepOutcome> {
  const begun = await withSystem(parts.db, 'read what is to be verified', async (tx) => {
    const verification = await BackupVerification.query(tx).findById(id).throwIfNotFound();
    const repository = await BackupRepository.query(tx).findById(verification.repositoryId ?? id);
    return repository === undefined ? undefined : { verification, repository };
  });
  if (begun === undefined) {
    throw new PermanentWorkFailure(
      'REPOSITORY_MISSING',
      'The repository was deleted before it was verified.',
    );
  }
  const { verification, repository } = begun;
  try {
    if (verification.verificationType === 'integrity') {
      return toOutcome(await verifyIntegrity(parts, repository, signal));
    }
    const restored = await beginTestRestore(parts, verification, repository, signal);
    return 'give' in restored ? { give: restored.give, nextStep: 'judge' } : toOutcome(restored);
  } catch (error) {
    if (!(error instanceof EngineError) || signal.aborted) throw error;
    throw new PermanentWorkFailure(error.code, error.message, { cause: error });
  }
}

async function judge(db: Db, run: WorkRun): Promise<StepOutcome> {
  return withSystem(db, 'judge a test restore that a device has done', async (tx) => {
    const verification = await BackupVerification.query(tx).findById(run.id).throwIfNotFound();
    return toOutcome(judgeTestRestore(verification, await endOfCommand(tx, run)));
  });
}

/** Nothing, if the verification could not be carried out. */
const Found = Verdict.omit({ status: true, errorCode: true, errorMessage: true }).optional();
type Found = z.infer<typeof Found>;

const STATUS = { passed: 'completed', partial: 'partial', failed: 'failed' } as const;

function toOutcome({ status, errorCode, errorMessage, ...facts }: Verdict): StepOutcome {
  return {
    end: {
      status: STATUS[status],
      ...omitUndefined({ code: errorCode, message: errorMessage }),
      result: facts,
    },
  };
}

/** The device can read the repository no more. */
async function storeFacts(tx: Tx, id: string, facts: Found | undefined): Promise<void> {
  if (facts !== undefined) await VerificationFacts.query(tx).findById(id).patch(omitUndefined(facts));
  await endCredentialsOfJob(tx, id);
}

/**
 * Verifies by itself: the integrity of each repository every week, and every day while its trash is held; a test restore
 * every 30 days, while the device is connected.
 */
export function sweep(work: WorkEngine, db: Db): Promise<{ added: number }> {
  return withSystem(db, 'find the repositories whose verification is due', async (tx) => {
    const rows = await dueVerifications(tx);
    let added = 0;
    for (const { verificationType, ...repository } of rows) {
      const wanted = { repository, verificationType, snapshotId: null, createdBy: null };
      if ((await addVerification(tx, work, wanted)) !== undefined) added += 1;
    }
    return { added };
  });
}

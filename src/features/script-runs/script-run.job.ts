import { z } from 'zod';
import { HOUR_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem, withTenant } from '../../platform/db/transaction.ts';
import { defineJob, type JobRun } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { announceCommands, requestCancelOfExecution } from '../commands/index.ts';
import { ScriptRun } from './script-run.model.ts';
import { failStarting, lockStarting, stuckRuns } from './script-run.queries.ts';
import { addCommandsOfRun, scopeOfRun } from './start-run.ts';

/** Devices in one transaction. Each takes a row of the ledger, a transition and perhaps secrets. */
const BATCH = 500;

/** Commands of a run that could not be added for so long are not added any more. */
const START_WITHIN_MS = HOUR_MS;
/** Longer than that, and than the last attempt. */
const STUCK_MINUTES = 75;

const START = defineJob({
  name: 'script-runs.start',
  input: z.object({ runId: z.uuid(), secrets: z.record(z.string(), z.string()) }),
  isSealed: true,
  attempts: 10,
  backOff: { firstMs: 2000, longestMs: 300_000 },
  concurrency: 2,
});

const CANCEL = defineJob({
  name: 'script-runs.cancel',
  input: z.object({ runId: z.uuid() }),
  attempts: 10,
  backOff: { firstMs: 2000, longestMs: 300_000 },
  concurrency: 2,
});

const FAIL_STUCK = defineJob({
  name: 'script-runs.fail-stuck',
  input: z.object({}),
  result: z.object({ failed: z.number() }),
  attempts: 1,
  inCluster: 1,
});

/** To be called in the transaction that stores the run, so that there is never one without the other. */
export async function enqueueStart(
  jobs: Jobs,
  tx: Tx,
  { runId, partnerId, secrets }: { runId: string; partnerId: string; secrets: Record<string, string> },
): Promise<void> {
  await jobs.enqueue(tx, START, { runId, secrets }, { key: runId, partnerId, deadlineMs: START_WITHIN_MS });
}

export async function enqueueCancel(
  jobs: Jobs,
  tx: Tx,
  { id: runId, partnerId }: Pick<ScriptRun, 'id' | 'partnerId'>,
): Promise<void> {
  await jobs.enqueue(tx, CANCEL, { runId }, { key: runId, partnerId });
}

interface Parts {
  jobs: Jobs;
  db: Db;
  hub: DeviceHub;
  secrets: Encryptor;
}

const NOT_STARTED = 'The server could not add the commands. Run it again on the devices that were refused.';

export function addScriptRunJobs({ jobs, db, hub, secrets: encryptor }: Parts): void {
  const findRun = (id: string) =>
    withSystem(db, 'find the script run of a job', (tx) => ScriptRun.query(tx).findById(id));

  /** @returns whether there may be more */
  async function addBatch(run: ScriptRun, secrets: Record<string, string>): Promise<boolean> {
    const caller = scopeOfRun(run);
    const { added, superseded, isDone } = await withTenant(db, caller, async (tx) => {
      const current = await lockStarting(tx, run.id);
      if (current === undefined) return { added: [], superseded: [], isDone: true };
      const batch = await addCommandsOfRun(
        { tx, caller },
        current,
        secrets,
        { hub, secrets: encryptor },
        BATCH,
      );
      return { ...batch, isDone: batch.added.length + batch.refused.length === 0 };
    });
    hub.jobsChanged(superseded);
    announceCommands(hub, added);
    return !isDone;
  }

  const start = async ({ input, attempt, signal }: JobRun<z.infer<(typeof START)['input']>>) => {
    const run = await findRun(input.runId);
    if (run === undefined) return;
    try {
      do signal.throwIfAborted();
      while (
        // Each batch has to be in the ledger before the next one is chosen.
        // oxlint-disable-next-line no-await-in-loop
        await addBatch(run, input.secrets)
      );
    } catch (error) {
      if (attempt >= START.attempts && !signal.aborted) await fail([run.id]);
      throw error;
    }
  };

  const fail = (ids: readonly string[]) =>
    withSystem(db, 'fail script runs that cannot be started', (tx) => failStarting(tx, ids, NOT_STARTED));

  jobs.handle(START, start);

  jobs.handle(CANCEL, async ({ input, signal }) => {
    const run = await findRun(input.runId);
    if (run === undefined) return;
    for (let count = BATCH; count === BATCH; ) {
      signal.throwIfAborted();
      // oxlint-disable-next-line no-await-in-loop
      const cancelled = await withTenant(db, scopeOfRun(run), (tx) =>
        requestCancelOfExecution(tx, run.id, BATCH),
      );
      hub.jobsChanged(cancelled.ended);
      for (const { id, deviceId } of cancelled.asked) hub.cancelCommand(deviceId, id);
      count = cancelled.count;
    }
  });

  jobs.handle(FAIL_STUCK, async () => {
    const stuck = await withSystem(db, 'find script runs that were not started', (tx) =>
      stuckRuns(tx, STUCK_MINUTES),
    );
    return { failed: stuck.length === 0 ? 0 : (await fail(stuck)).length };
  });
  jobs.schedule(FAIL_STUCK, { cron: '*/10 * * * *', timeZone: 'UTC' }, {});
}

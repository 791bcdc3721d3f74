import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { failureReason, soakedAt, type Step } from './next-step.ts';
import { AgentRollout } from './upgrade.model.ts';
import { causingDevices, examine, positionOf } from './rollout-counts.ts';
import { currentTime, readOutcomes } from './rollout.queries.ts';
import { halt } from './rollout.service.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';

/**
 * Decides about the rollouts that are running. A server that decides holds the row of the rollout, reads, decides and writes in
 * one transaction: two servers that decide at the same time change nothing twice, and one that dies has changed nothing.
 */

export interface Round {
  /** Whether there are rollouts left to decide about. */
  isRunning: boolean;
  steps: { rolloutId: string; step: Step['do'] }[];
}

interface RoundOptions {
  /** The time of the database if it is left out. */
  now?: Date | undefined;
  /** Looks for silence as well, which reads the whole fleet. Otherwise the fleet is read when a wave could open. */
  isWhole: boolean;
}

export async function advanceRollouts(
  { db, log }: { db: Db; log: Logger },
  options: RoundOptions,
): Promise<Round> {
  const ids = await withSystem(db, 'find the rollouts that are running', async (tx) =>
    (await AgentRollout.query(tx).select('id').where({ state: 'running' })).map(({ id }) => id),
  );
  const round: Round = { isRunning: false, steps: [] };
  for (const rolloutId of ids) {
    const step = await withSystem(db, 'decide about a rollout', (tx) =>
      conduct(tx, rolloutId, options),
    ).catch(
      // The other rollouts get their turn, and this one another in the next round.
      (error: unknown) => {
        log.error({ err: error, rolloutId }, 'rollouts.undecided');
        return undefined;
      },
    );
    round.isRunning ||= step === undefined || step.do === 'hold' || step.do === 'open_next_wave';
    if (step === undefined || step.do === 'hold') continue;
    round.steps.push({ rolloutId, step: step.do });
    log.info({ rolloutId, ...step }, 'rollouts.step');
  }
  return round;
}

/** `undefined` if another transaction is deciding about it, or has just ended it. */
async function conduct(tx: Tx, id: string, { now: given, isWhole }: RoundOptions): Promise<Step | undefined> {
  const rollout = await AgentRollout.query(tx).findOne({ id, state: 'running' }).forUpdate().skipLocked();
  if (rollout === undefined) return undefined;
  const now = given ?? (await currentTime(tx));
  if (!isWhole && !(await couldChange(tx, rollout, now))) return { do: 'hold', because: 'soaking' };

  const { outcomes, counts, step, classes } = await examine(tx, rollout, now);
  const { silence } = counts;
  switch (step.do) {
    case 'halt': {
      const devices = await causingDevices(tx, rollout, { reason: step.because, classes, now });
      await halt(tx, rollout, { reason: step.because, outcomes, silence, devices, now });
      break;
    }
    case 'open_next_wave':
      await AgentRollout.query(tx)
        .findById(id)
        .patch({ wave: rollout.wave + 1, waveOpenedAt: now });
      break;
    case 'complete':
      await AgentRollout.query(tx).findById(id).patch({ state: 'completed', endedAt: now });
      break;
    case 'hold':
  }
  return step;
}

/** Whether the end of the soak or failures may lead to a step, by the few rows of the rollout's own upgrades. */
async function couldChange(tx: Tx, rollout: AgentRollout, now: Date): Promise<boolean> {
  const position = positionOf(rollout);
  const isSoaked = soakedAt(position).getTime() <= now.getTime();
  if (isSoaked) return true;
  const outcomes = await readOutcomes(tx, rollout);
  return failureReason(outcomes, position.haltWhen, { isSoaked }) !== undefined;
}

const RESULT = z.object({ steps: z.array(z.object({ rolloutId: z.string(), step: z.string() })) });

const CONDUCT = defineJob({
  name: 'agent-rollouts.conduct',
  input: z.object({}),
  result: RESULT,
  inCluster: 1,
  // Not retried, because the next round comes soon.
  attempts: 1,
});
/** Between two whole rounds: failures halt a rollout sooner than within a minute. */
const LOOK_AT_FAILURES = defineJob({
  name: 'agent-rollouts.look-at-failures',
  input: z.object({}),
  result: RESULT,
  inCluster: 1,
  attempts: 1,
});
const LOOK_EVERY_MS = 15_000;

export interface RolloutWorkParts {
  jobs: Jobs;
  db: Db;
  log: Logger;
}

/** Decides about rollouts once a minute, and looks for failures in between while one is running. */
export function scheduleRollouts({ jobs, db, log }: RolloutWorkParts): void {
  const lookLater = (at: number) =>
    // The key makes one job of those that several rounds add for the same time.
    jobs.enqueue(
      undefined,
      LOOK_AT_FAILURES,
      {},
      {
        key: String(Math.floor(at / LOOK_EVERY_MS)),
        delayMs: LOOK_EVERY_MS - (at % LOOK_EVERY_MS),
        deadlineMs: 60_000,
      },
    );
  const round = async (isWhole: boolean) => {
    const { isRunning, steps } = await advanceRollouts({ db, log }, { isWhole });
    if (isRunning) await lookLater(clock.now());
    return { steps };
  };
  jobs.handle(CONDUCT, () => round(true));
  jobs.handle(LOOK_AT_FAILURES, () => round(false));
  jobs.schedule(CONDUCT, { cron: '* * * * *', timeZone: 'UTC' }, {});
}

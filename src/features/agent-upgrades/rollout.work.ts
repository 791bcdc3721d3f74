import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { failureReason } from '../rollouts/halting.ts';
import { soakedAt, type Step } from '../rollouts/next-step.ts';
import { AgentRollout } from '../rollouts/rollout.model.ts';
import { causingDevices, databaseTime, examine, positionOf } from './examine.ts';
import { halt } from './halt.ts';
import { readOutcomes } from './outcomes.ts';

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
  /** The time of the database where it is left out. */
  now?: Date | undefined;
  /** Looks for silence as well, which reads the whole fleet. Otherwise the fleet is read when a wave could open. */
  isWhole: boolean;
}

export async function conductRollouts(
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

/** `undefined` where somebody else is deciding about it, or has just ended it. */
async function conduct(tx: Tx, id: string, { now: given, isWhole }: RoundOptions): Promise<Step | undefined> {
  const rollout = await AgentRollout.query(tx).findOne({ id, state: 'running' }).forUpdate().skipLocked();
  if (rollout === undefined) return undefined;
  const now = given ?? (await databaseTime(tx));
  if (!isWhole && !(await couldChange(tx, rollout, now))) return { do: 'hold', because: 'soaking' };

  const { outcomes, census, step, classes } = await examine(tx, rollout, now);
  const { silence } = census;
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

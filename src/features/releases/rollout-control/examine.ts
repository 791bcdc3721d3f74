import type { Tx } from '../../../platform/db/transaction.ts';
import type { HaltReason, Outcomes } from '../rollouts/halting.ts';
import { nextStep, type RolloutPosition, type Step } from '../rollouts/next-step.ts';
import type { AgentRollout } from '../rollouts/rollout.model.ts';
import { type Census, takeCensus } from './census.ts';
import { type NamedDevice, silentDevices } from './device-groups.ts';
import { failedDevices, readOutcomes } from './outcomes.ts';
import type { SettingsClass } from './staged-organizations.ts';

/** What a rollout has come to, and what follows from it. */
export interface Examination {
  outcomes: Outcomes;
  census: Census;
  step: Step;
  classes: SettingsClass[];
}

export async function examine(tx: Tx, rollout: AgentRollout, now: Date): Promise<Examination> {
  const outcomes = await readOutcomes(tx, rollout);
  const { classes, ...census } = await takeCensus(tx, rollout, now);
  const wave = census.waves[rollout.wave]?.progress ?? { members: 0, reachable: 0, finished: 0 };
  const { silence, finishedInAll } = census;
  const step = nextStep(positionOf(rollout), { outcomes, silence, wave, finishedInAll }, now);
  return { outcomes, census, step, classes };
}

/** The devices that are the reason for a halt. */
export function causingDevices(
  tx: Tx,
  rollout: AgentRollout,
  { reason, classes, now }: { reason: HaltReason; classes: readonly SettingsClass[]; now: Date },
): Promise<NamedDevice[]> {
  return reason === 'silent'
    ? silentDevices(tx, rollout, { classes, now })
    : failedDevices(tx, rollout, { inARow: reason === 'failed_in_a_row' });
}

/** The rollout as the pure functions take it. */
export const positionOf = (rollout: AgentRollout): RolloutPosition => ({
  state: rollout.state,
  waves: rollout.waves,
  wave: rollout.wave,
  waveOpenedAt: rollout.waveOpenedAt,
  haltWhen: {
    failedPercent: Number(rollout.failedPercent),
    silentMinutes: rollout.silentMinutes,
    minDevices: rollout.minDevices,
  },
});

export async function databaseTime(tx: Tx): Promise<Date> {
  const { rows } = await tx.raw<{ rows: [{ now: Date }] }>('select now() as now');
  return rows[0].now;
}

import {
  failureReason,
  type HaltReason,
  type HaltWhen,
  isSilent,
  type Outcomes,
  type Silence,
} from './halting.ts';
import type { RolloutState } from './rollout.schema.ts';

/** What becomes of a rollout now: one pure function of its state, what its devices did, and the time. */

export interface RolloutPosition {
  state: RolloutState;
  waves: readonly { soakMinutes: number }[];
  /** The wave that is open, from 0. */
  wave: number;
  waveOpenedAt: Date;
  haltWhen: HaltWhen;
}

/** The devices of the wave that is open. */
export interface WaveProgress {
  /** Devices that run the version because of the rollout, or would be upgraded if they were connected. */
  members: number;
  /** Those of them that were connected since the wave was opened: a device that is away counts for nothing. */
  reachable: number;
  finished: number;
}

export interface Evidence {
  outcomes: Outcomes;
  silence: Silence;
  wave: WaveProgress;
  /** Devices of all waves that have finished since the start of the rollout. */
  finishedInAll: number;
}

export type HoldReason = 'not_running' | 'soaking' | 'nothing_finished' | 'too_few_finished';

export type Step =
  | { do: 'hold'; because: HoldReason }
  | { do: 'halt'; because: HaltReason }
  | { do: 'open_next_wave' }
  | { do: 'complete' };

const MINUTE_MS = 60_000;

export function nextStep(rollout: RolloutPosition, evidence: Evidence, now: Date): Step {
  if (rollout.state !== 'running') return { do: 'hold', because: 'not_running' };
  const isSoaked = soakedAt(rollout).getTime() <= now.getTime();
  const reason =
    failureReason(evidence.outcomes, rollout.haltWhen, { isSoaked }) ??
    (isSilent(evidence.silence) ? 'silent' : undefined);
  if (reason !== undefined) return { do: 'halt', because: reason };
  if (!isSoaked) return { do: 'hold', because: 'soaking' };
  const lack = lackOfEvidence(evidence);
  if (lack !== undefined) return { do: 'hold', because: lack };
  return { do: rollout.wave + 1 < rollout.waves.length ? 'open_next_wave' : 'complete' };
}

/** When the wave that is open has been observed for long enough. */
export function soakedAt({ waves, wave, waveOpenedAt }: RolloutPosition): Date {
  const soakMinutes = waves[wave]?.soakMinutes ?? 0;
  return new Date(waveOpenedAt.getTime() + soakMinutes * MINUTE_MS);
}

/** No failures are no success: half of a wave has to have finished. A wave that has no devices needs none. */
function lackOfEvidence({ wave, finishedInAll }: Evidence): HoldReason | undefined {
  if (finishedInAll === 0) return 'nothing_finished';
  if (wave.members === 0) return undefined;
  if (wave.finished === 0) return 'nothing_finished';
  return wave.finished * 2 < wave.reachable ? 'too_few_finished' : undefined;
}

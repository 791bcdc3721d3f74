import { MINUTE_MS } from '../../clock.ts';
import type { RolloutState, WavePlan } from './rollout.schema.ts';
import { PLACES, placesOf } from './resolve-target.ts';

/** The waves of a rollout that was given none (docs/decisions/agent-rollouts.md). */

const HOUR = 60;
const DAY = 24 * HOUR;

/** The share of the fleet that is reached, and for how long it is observed. */
const STEPS: readonly { reached: number; soakMinutes: number }[] = [
  { reached: 1, soakMinutes: HOUR },
  { reached: 5, soakMinutes: 4 * HOUR },
  { reached: 20, soakMinutes: DAY },
  { reached: 50, soakMinutes: DAY },
  { reached: 100, soakMinutes: DAY },
];

/** A step that is not by so much larger than the first wave would be observed for little. */
const WORTH_A_WAVE = 1.2;

/** A first wave of fewer devices does not show what breaks few of them. */
const FIRST_WAVE_DEVICES = 100;
const FIRST_WAVE_SHARE = 0.1;

/** How many devices the first wave of a fleet should have. */
export const firstWaveSize = (fleet: number): number =>
  Math.min(FIRST_WAVE_DEVICES, Math.ceil(fleet * FIRST_WAVE_SHARE));

/**
 * @param firstPlaces  the fewest places that hold `firstWaveSize` devices. A step that the first wave takes the place of
 *   leaves it the longer time.
 */
export function defaultWaves(firstPlaces: number): WavePlan[] {
  const first = Math.max(firstPlaces, placesOf(STEPS[0]?.reached ?? 0));
  const isLater = ({ reached }: { reached: number }) =>
    reached === 100 ? first < PLACES : placesOf(reached) >= first * WORTH_A_WAVE;
  const replaced = STEPS.filter((step, at) => at === 0 || !isLater(step));
  const later = STEPS.slice(1).filter(isLater);
  const ends = [first, ...later.map(({ reached }) => placesOf(reached))];
  const soaks = [replaced, ...later.map((step) => [step])].map((steps) =>
    Math.max(...steps.map(({ soakMinutes }) => soakMinutes)),
  );
  return ends.map((end, at) => ({
    percent: ((end - (ends[at - 1] ?? 0)) * 100) / PLACES,
    soakMinutes: soaks[at] ?? 0,
  }));
}

/** When a rollout has to stop by itself (docs/decisions/agent-rollouts.md). */

export interface HaltWhen {
  /** The share of failures among the devices that have finished. */
  failedPercent: number;
  /** How long a device may be unheard of after its upgrade. */
  silentMinutes: number;
  /** The share of failures counts once so many devices have finished. */
  minDevices: number;
}

/** How the upgrades of a rollout ended since it was started or resumed after a halt. Each device counts once. */
export interface Outcomes {
  healthy: number;
  failed: number;
  /** The longest sequence of devices that failed one after another, with none between them that did not. */
  failuresInARow: number;
  /** Devices whose upgrade has begun and not ended. */
  underWay: number;
}

/** Devices that could have been heard of for `silentMinutes`, and those of them that were not. */
export interface Silence {
  /** Devices that run the new version, or should. */
  upgraded: number;
  upgradedSilent: number;
  /** Devices of the same organizations that the rollout has not touched. */
  others: number;
  othersSilent: number;
}

export type HaltReason = 'failed_in_a_row' | 'failed_share' | 'silent';

/** One failure is no evidence, whatever its share. */
const FAILED_MIN = 2;
const FAILED_IN_A_ROW = 3;

export function failureReason(
  outcomes: Outcomes,
  { failedPercent, minDevices }: HaltWhen,
  { isSoaked }: { isSoaked: boolean },
): HaltReason | undefined {
  const { healthy, failed, failuresInARow, underWay } = outcomes;
  if (failuresInARow >= FAILED_IN_A_ROW) return 'failed_in_a_row';
  const finished = healthy + failed;
  // A small wave never has `minDevices`, so its share counts when nothing more is expected.
  const isEvidence = finished >= minDevices || underWay === 0 || isSoaked;
  const isShareReached = failed * 100 >= failedPercent * finished;
  return isEvidence && failed >= FAILED_MIN && isShareReached ? 'failed_share' : undefined;
}

/** Beyond what chance and closed laptops explain: so many devices, and so many percent of the upgraded ones. */
const SILENT_MIN = 2;
const SILENT_MIN_SHARE = 0.03;
/** A sample differs from what is expected by more than three standard deviations once in 700 times. */
const DEVIATIONS = 3;
/**
 * The share of the others is taken as if three more of them had been watched and had fallen silent. Among many it changes
 * nothing; with few to compare with, nearly all of the upgraded devices have to be silent, and with none nothing is said.
 */
const UNKNOWN_OTHERS = 3;

export function isSilent({ upgraded, upgradedSilent, others, othersSilent }: Silence): boolean {
  const usual = (othersSilent + UNKNOWN_OTHERS) / (others + UNKNOWN_OTHERS);
  const expected = upgraded * usual;
  const deviation = Math.sqrt(expected * (1 - usual));
  return (
    upgradedSilent - expected >= Math.max(SILENT_MIN, upgraded * SILENT_MIN_SHARE, DEVIATIONS * deviation)
  );
}

/** Decides the next step of a rollout: one pure function of its state, what its devices did, and the time. */

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
  /** The devices of the wave that were connected since it was opened; others do not count. */
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

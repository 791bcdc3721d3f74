import type { WavePlan } from './rollout.schema.ts';
import { PLACES, placesOf } from './wave.ts';

/** The waves of a rollout for which nobody has given any (docs/decisions/agent-rollouts.md). */

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

import { createHash } from 'node:crypto';

/** Which wave of a rollout a device belongs to, by a hash that is the same on every server and in the database. */

/** What decides about devices, of the newest rollout of a component that was not aborted. */
export interface LiveRollout {
  id: string;
  component: string;
  version: string;
  /** The share of the fleet in the waves that are open; 0 while the rollout is paused. */
  reachedPercent: number;
  isHalted: boolean;
  /** They belong to the first wave whatever their place, so that it holds some devices of each platform. */
  firstDevices: ReadonlySet<string>;
}

/** What a rollout says about a device. */
export type Wave = 'reached' | 'not_reached' | 'halted';

/** Percentages have two decimals, so that each is a whole number of places. */
export const PLACES = 10_000;
const PLACES_PER_PERCENT = PLACES / 100;

/** A device's place in a rollout, from 0 to 9,999. Other devices come first in the next one. SQL: `rollout_place`. */
export function placeOf(rolloutId: string, deviceId: string): number {
  const ids = Buffer.from(`${rolloutId}${deviceId}`.replaceAll('-', ''), 'hex');
  return createHash('sha256').update(ids).digest().readUInt32BE() % PLACES;
}

/** How many places a share of the fleet has. */
export const placesOf = (percent: number): number => Math.round(percent * PLACES_PER_PERCENT);

export function waveOf(rollout: LiveRollout | undefined, deviceId: string): Wave {
  if (rollout === undefined) return 'not_reached';
  if (rollout.isHalted) return 'halted';
  if (rollout.reachedPercent === 0) return 'not_reached';
  const isReached =
    placeOf(rollout.id, deviceId) < placesOf(rollout.reachedPercent) || rollout.firstDevices.has(deviceId);
  return isReached ? 'reached' : 'not_reached';
}

/** What the rollouts say about a component of a device, in the form that the resolver takes. */
export function rolloutFor(
  rollouts: readonly LiveRollout[],
  component: string,
  deviceId: string,
): { version: string; wave: Wave } | undefined {
  const rollout = rollouts.find((one) => one.component === component);
  return rollout === undefined ? undefined : { version: rollout.version, wave: waveOf(rollout, deviceId) };
}

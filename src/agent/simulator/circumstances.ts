import { mix } from './random.ts';
import { osOf } from './synthetic-machine.ts';

/** What befalls the machines of an eventful fleet, by their number. In any other fleet nothing happens to anyone. */

export interface Circumstances {
  /** Its disk fails: errors flood its log, and it is nearly full. */
  hasFailingDisk: boolean;
  /** It loses its connection every minute or so. */
  hasPoorConnection: boolean;
  /** It installs the releases that it is offered. */
  installsReleases: boolean;
  /** A new release does not run on it, so it goes back to the one before. */
  rollsBack: boolean;
}

const POOR_CONNECTIONS: readonly number[] = [9, 31, 58, 84];
const ROLLS_BACK_ONE_IN = 37;
/** Of the first machines one has a failing disk, so that a small fleet has it too. */
const FAILING_DISK = firstWindowsFrom(3);

function firstWindowsFrom(first: number): number {
  let index = first;
  while (osOf(index) !== 'windows') index += 1;
  return index;
}

export const circumstancesOf = (index: number, isEventful: boolean): Circumstances => ({
  hasFailingDisk: isEventful && index === FAILING_DISK,
  hasPoorConnection: isEventful && POOR_CONNECTIONS.includes(index),
  installsReleases: isEventful,
  rollsBack: isEventful && mix(index, 41) % ROLLS_BACK_ONE_IN === 0,
});

import { OF_CLAIMS } from './planted/claims.ts';
import type { PlantedFault } from './planted/fault.ts';
import { OF_PRESENCE } from './planted/presence.ts';
import { OF_WORK } from './planted/work.ts';

/**
 * Faults that the simulation has to find: `npm run test:simulation:planted`. They measure the workload and the auditor.
 * Each is a mistake that somebody could make, not a random change: for those there is mutation testing.
 */
export const PLANTED: readonly PlantedFault[] = [...OF_CLAIMS, ...OF_PRESENCE, ...OF_WORK];

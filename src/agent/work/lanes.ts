import { LANE_LIMITS, type Lane } from '../../protocol/index.ts';

/**
 * Which of the waiting commands may start now: in the order in which they were accepted, as many in each lane as it has
 * free places. A lane never waits for another one.
 */
export function startable<C>(waiting: Iterable<C>, running: Iterable<C>, laneOf: (command: C) => Lane): C[] {
  const free: Record<Lane, number> = { ...LANE_LIMITS };
  for (const command of running) free[laneOf(command)] -= 1;
  const next: C[] = [];
  for (const command of waiting) {
    const lane = laneOf(command);
    if (free[lane] <= 0) continue;
    free[lane] -= 1;
    next.push(command);
  }
  return next;
}

import type { Tx } from '../../../platform/db/transaction.ts';
import { AgentRollout } from './rollout.model.ts';
import { type LiveRollout, placesOf, PLACES } from './wave.ts';

/** The newest rollout of each component that was not aborted: an ended one still says what its devices should run. */
export async function liveRollouts(tx: Tx): Promise<LiveRollout[]> {
  const rollouts = await AgentRollout.query(tx)
    .distinctOn('component')
    .whereNot('state', 'aborted')
    .orderBy([
      { column: 'component' },
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ]);
  return rollouts.map(asLive);
}

const asLive = (rollout: AgentRollout): LiveRollout => ({
  id: rollout.id,
  component: rollout.component,
  version: rollout.version,
  reachedPercent: rollout.state === 'paused' ? 0 : percentThrough(rollout.waves, rollout.wave),
  isHalted: rollout.state === 'halted',
  firstDevices: new Set(rollout.firstDevices),
});

/** The share of the fleet in the first waves up to `last`. Whole places are added, because sums of decimals are not exact. */
export function percentThrough(waves: readonly { percent: number }[], last: number): number {
  const places = waves.slice(0, last + 1).reduce((sum, { percent }) => sum + placesOf(percent), 0);
  return (places * 100) / PLACES;
}

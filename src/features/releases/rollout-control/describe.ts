import { z } from 'zod';
import type { Tx } from '../../../platform/db/transaction.ts';
import { percentThrough } from '../rollouts/live-rollouts.ts';
import { type HoldReason, soakedAt, type Step } from '../rollouts/next-step.ts';
import type { AgentRollout } from '../rollouts/rollout.model.ts';
import type { WaveCount } from './census.ts';
import { databaseTime, examine, positionOf } from './examine.ts';

/** Rollouts as answers show them. */

export function shown(rollout: AgentRollout) {
  const { id, component, version, state, wave, waveOpenedAt, createdBy, createdAt, endedAt } = rollout;
  return {
    id,
    component,
    version,
    state,
    wave,
    waveOpenedAt,
    createdBy,
    createdAt,
    endedAt,
    waves: rollout.waves.map((plan, at) => ({ ...plan, reachedPercent: percentThrough(rollout.waves, at) })),
    haltWhen: positionOf(rollout).haltWhen,
  };
}

/** With what became of each device, counted now. */
export async function shownWithDevices(tx: Tx, rollout: AgentRollout) {
  const now = await databaseTime(tx);
  const { census, step } = await examine(tx, rollout, now);
  const answer = shown(rollout);
  const counted = census.waves.map(countsOf);
  return {
    ...answer,
    waves: answer.waves.map((plan, at) => ({
      ...plan,
      ...(counted[at] ?? countsOf({ standings: {}, waiting: {} })),
      state: at <= rollout.wave ? ('open' as const) : ('waiting' as const),
    })),
    outside: counted[rollout.waves.length]?.devices ?? 0,
    next: {
      step: step.do,
      message: messageOf(rollout.state, step),
      soakedAt: soakedAt(positionOf(rollout)),
    },
    halts: await readHalts(tx, rollout.id),
  };
}

function countsOf({ standings, waiting: { due = 0, ...waiting } }: Pick<WaveCount, 'standings' | 'waiting'>) {
  const counts = {
    due,
    offered: 0,
    downloading: 0,
    verifying: 0,
    installing: 0,
    restarting: 0,
    trial: 0,
    healthy: 0,
    failed: 0,
    rolledBack: 0,
    silent: 0,
    upToDate: 0,
    ...standings,
  };
  const devices = sum(counts) + sum(waiting);
  return { devices, counts: { ...counts, waiting } };
}

const sum = (counts: Partial<Record<string, number>>) =>
  Object.values(counts).reduce<number>((total, count = 0) => total + count, 0);

const STATES: Record<Exclude<AgentRollout['state'], 'running'>, string> = {
  paused: 'The rollout is paused. Resume or abort it.',
  halted: 'The rollout was halted. Resume or abort it.',
  aborted: 'The rollout was aborted.',
  completed: 'The rollout is completed.',
};
const STEPS: Record<Exclude<Step['do'], 'hold'>, string> = {
  halt: 'The rollout is halted in the next round.',
  open_next_wave: 'The next wave opens in the next round.',
  complete: 'The rollout is completed in the next round.',
};
const HOLDS: Record<Exclude<HoldReason, 'not_running'>, string> = {
  soaking: 'The open wave is being observed.',
  nothing_finished: 'No device of the open wave has finished its upgrade.',
  too_few_finished:
    'Fewer than half of the devices of the open wave that are connected have finished their upgrade.',
};

function messageOf(state: AgentRollout['state'], step: Step): string {
  if (state !== 'running') return STATES[state];
  if (step.do !== 'hold') return STEPS[step.do];
  if (step.because === 'not_running') throw new Error('a running rollout does not run');
  return HOLDS[step.because];
}

const HALTS_SHOWN = 20;
const StoredHalts = z.array(
  z.object({
    reason: z.enum(['failed_share', 'failed_in_a_row', 'silent']),
    message: z.string(),
    devices: z.array(z.object({ deviceId: z.string(), orgId: z.string(), name: z.string() })),
    deviceCount: z.number(),
    haltedAt: z.date(),
    endedAt: z.date().nullable(),
  }),
);

async function readHalts(tx: Tx, rolloutId: string) {
  const rows: unknown = await tx('agent_rollout_halts')
    .select('reason', 'message', 'devices', 'device_count as deviceCount', 'halted_at as haltedAt')
    .select('ended_at as endedAt')
    .where({ rollout_id: rolloutId })
    .orderBy('halted_at', 'desc')
    .limit(HALTS_SHOWN);
  return StoredHalts.parse(rows);
}

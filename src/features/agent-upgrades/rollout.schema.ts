import { z } from 'zod';
import { Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { placesOf, PLACES } from './resolve-target.ts';
import { PinnedComponent, Reason } from './upgrade.schema.ts';
import { Version } from '../releases/index.ts';

export const RolloutState = z
  .enum(['running', 'paused', 'halted', 'aborted', 'completed'])
  .describe('`paused` by a person, `halted` by failures; both can be resumed. `aborted` cannot.');
export type RolloutState = z.infer<typeof RolloutState>;

const A_MONTH_IN_MINUTES = 43_200;

export const WavePlan = z.strictObject({
  percent: z
    .number()
    .positive()
    .max(100)
    .multipleOf(0.01)
    .describe('The share of the fleet that this wave adds to the waves before it.'),
  soakMinutes: z
    .number()
    .int()
    .min(0)
    .max(A_MONTH_IN_MINUTES)
    .describe('How long the wave is observed before the next one opens.'),
});
export type WavePlan = z.infer<typeof WavePlan>;

const MAX_WAVES = 20;
const A_WEEK_IN_MINUTES = 10_080;

const HaltWhen = z.strictObject({
  failedPercent: z
    .number()
    .positive()
    .max(100)
    .multipleOf(0.01)
    .default(2)
    .describe('Halt when so large a share of the devices that have finished failed, and at least two.'),
  silentMinutes: z
    .number()
    .int()
    .min(1)
    .max(A_WEEK_IN_MINUTES)
    .default(30)
    .describe('How long a device may be unheard of after its upgrade before it counts as silent.'),
  minDevices: z
    .number()
    .int()
    .min(1)
    .max(1_000_000)
    .default(20)
    .describe('The share of failures counts when so many devices have finished, or all that have begun.'),
});

export const NewRollout = z.strictObject({
  version: Version,
  component: PinnedComponent.default('agent'),
  waves: z
    .array(WavePlan)
    .min(1)
    .max(MAX_WAVES)
    .refine(
      (waves) => waves.reduce((sum, { percent }) => sum + placesOf(percent), 0) <= PLACES,
      'must not sum to more than 100 percent',
    )
    .optional()
    .describe(
      'Shares of the fleet, which sum to at most 100. Left out: up to 1, 5, 20, 50 and 100 percent, the first wave with at least a tenth of the fleet or 100 devices.',
    ),
  haltWhen: HaltWhen.prefault({}),
});
export type NewRollout = z.infer<typeof NewRollout>;

export const RolloutQuery = PageQuery.extend({
  component: PinnedComponent.optional(),
  state: RolloutState.optional(),
});
export type RolloutQuery = z.infer<typeof RolloutQuery>;

const Halt = z
  .object({
    reason: z.enum(['failed_share', 'failed_in_a_row', 'silent']),
    message: z.string(),
    devices: z
      .array(z.object({ deviceId: z.uuid(), orgId: z.uuid(), name: z.string() }))
      .describe('The devices that caused it, at most 100 of them, as they were then.'),
    deviceCount: z.number().int(),
    haltedAt: Timestamp,
    endedAt: Timestamp.nullable().describe('When the rollout was resumed or aborted.'),
  })
  .meta({ id: 'AgentRolloutHalt' });

const Plan = WavePlan.extend({
  reachedPercent: z.number().describe('The share of the fleet in this wave and those before it.'),
});

export const Rollout = z
  .object({
    id: z.uuid(),
    component: PinnedComponent,
    version: z.string(),
    state: RolloutState,
    waves: z.array(Plan),
    wave: z.number().int().describe('The wave that is open, from 0.'),
    waveOpenedAt: Timestamp,
    haltWhen: HaltWhen,
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    endedAt: Timestamp.nullable().describe('When it was completed or aborted.'),
  })
  .meta({ id: 'AgentRollout' });

const count = z.number().int();

const Counts = z
  .object({
    due: count.describe('They are offered the release with their next heartbeat.'),
    offered: count.describe('The upgrade was requested and has not begun.'),
    downloading: count,
    verifying: count,
    installing: count,
    restarting: count,
    trial: count.describe('They run the new version, which still has to prove itself.'),
    healthy: count,
    failed: count,
    rolledBack: count,
    silent: count.describe('They run the new version, or should, and are not heard of.'),
    upToDate: count.describe('They have the version without the rollout.'),
    waiting: z
      .partialRecord(Reason, count)
      .describe('Devices whose upgrade has not begun, by the reason that `GET /devices/:id/upgrades` gives.'),
  })
  .describe('Each device counts in one of these.');

export const RolloutDetails = Rollout.extend({
  waves: z.array(
    Plan.extend({
      state: z.enum(['open', 'waiting']),
      devices: count.describe('Devices of the wave for which the version is the target.'),
      counts: Counts,
    }),
  ),
  outside: count.describe('Devices for which the version is the target and that no wave reaches.'),
  next: z
    .object({
      step: z.enum(['hold', 'halt', 'open_next_wave', 'complete']),
      message: z.string(),
      soakedAt: Timestamp.describe('When the open wave has been observed for long enough.'),
    })
    .describe('What the server does in its next round, once a minute, and why.'),
  halts: z.array(Halt).describe('Newest first, at most 20.'),
}).meta({ id: 'AgentRolloutDetails' });
export type RolloutDetails = z.infer<typeof RolloutDetails>;

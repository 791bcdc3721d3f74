import { z } from 'zod';
import { Timestamp } from '../../../platform/http/fields.ts';
import { UpgradableComponent } from '../../../protocol/index.ts';
import { Levels, PinnedComponent, Reason, TargetState } from '../targets/target.schema.ts';

/**
 * How far an attempt has come. `offered`: a person has asked for it, and the device has not begun. `trial`: the device runs
 * the release, and its watchdog has not said yet whether it is healthy.
 */
export const AttemptState = z.enum([
  'offered',
  'downloading',
  'verifying',
  'installing',
  'restarting',
  'trial',
  'completed',
  'failed',
  'rolled_back',
]);
export type AttemptState = z.infer<typeof AttemptState>;

export const UpgradeState = z
  .enum([
    ...TargetState.options,
    'downloading',
    'verifying',
    'installing',
    'restarting',
    'trial',
    'failed',
    'rolled_back',
  ])
  .describe(
    '`deferred` ends by itself, `blocked` when somebody changes something. `trial`: the device runs the release, which still has to prove itself. `failed` and `rolled_back`: the version has failed and is tried again later.',
  );
export type UpgradeState = z.infer<typeof UpgradeState>;

export const UpgradeReason = z.enum([...Reason.options, 'retry_later', 'one_at_a_time']);
export type UpgradeReason = z.infer<typeof UpgradeReason>;

const Attempt = z
  .object({
    id: z.uuid(),
    fromVersion: z.string().nullable(),
    targetVersion: z.string(),
    state: AttemptState,
    code: z.string().nullable().describe('Why it failed, for programs.'),
    error: z.string().nullable().describe('Why it failed, as the device reports it.'),
    rolloutId: z.uuid().nullable(),
    byHand: z.boolean().describe('Whether a person has asked for it.'),
    startedAt: Timestamp,
    updatedAt: Timestamp,
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'DeviceUpgradeAttempt' });

export const Upgrade = z
  .object({
    component: PinnedComponent,
    current: z.string().describe('The version that the device reports.'),
    target: z.string().nullable().describe('The version that it should run, or is being upgraded to.'),
    state: UpgradeState,
    reason: UpgradeReason.nullable(),
    message: z.string(),
    nextAt: Timestamp.optional().describe(
      'When the maintenance window opens, or when the version is tried again; with `outside_window` and `retry_later` only.',
    ),
    levels: Levels,
    history: z.array(Attempt).describe('The newest attempts, at most 20, newest first.'),
  })
  .meta({ id: 'DeviceUpgrade' });
export type Upgrade = z.infer<typeof Upgrade>;

export const UpgradeRequest = z.strictObject({
  component: UpgradableComponent.optional().describe('Default: the first that can be upgraded.'),
});
export type UpgradeRequest = z.infer<typeof UpgradeRequest>;

import { z } from 'zod';
import { Timestamp } from '../../platform/http/fields.ts';
import { UpgradableComponent } from '../../protocol/index.ts';
import { MaintenanceWindow, UpdatePolicy, VersionPin } from '../partners/index.ts';

/** The components that can be pinned, each by itself. */
export const PinnedComponent = z.enum(['agent', 'watchdog']);
export type PinnedComponent = z.infer<typeof PinnedComponent>;

const Level = z.enum(['organization', 'partner', 'default']).describe('Where the value was set.');
export type Level = z.infer<typeof Level>;

const setting = <S extends z.ZodType>(value: S) => z.object({ value, level: Level });

export const EffectiveSettings = z
  .object({
    pins: z.object({ agent: setting(VersionPin), watchdog: setting(VersionPin) }),
    policy: setting(UpdatePolicy),
    maintenanceWindow: setting(
      MaintenanceWindow.nullable().describe('Null: upgrades may be installed at any time.'),
    ),
  })
  .meta({ id: 'EffectiveAgentUpdates' });
export type EffectiveSettings = z.infer<typeof EffectiveSettings>;

/** Why a component is not upgraded. */
export const Reason = z.enum([
  'no_release',
  'pinned',
  'no_build_for_platform',
  'newer_than_target',
  'signature_untrusted',
  'capability_missing',
  'auto_update_off',
  'policy_manual',
  'rollout_halted',
  'wave_not_reached',
  'outside_window',
  'in_maintenance',
  'agent_offline',
]);
export type Reason = z.infer<typeof Reason>;

export const TargetState = z
  .enum(['up_to_date', 'offered', 'deferred', 'blocked'])
  .describe('`deferred` ends by itself, `blocked` when a setting is changed.');
export type TargetState = z.infer<typeof TargetState>;

const Levels = z.object({ pin: Level, policy: Level, window: Level });

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
    '`deferred` ends by itself, `blocked` when a setting is changed. `trial`: the device runs the release, which still has to prove itself. `failed` and `rolled_back`: the version has failed and is tried again later.',
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
      'When the maintenance window opens, or when the version is tried again; with `outside_window`, `in_maintenance` and `retry_later` only.',
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

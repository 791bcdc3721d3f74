import { z } from 'zod';
import { MaintenanceWindow, UpdatePolicy, VersionPin } from '../../partners/index.ts';

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
  'agent_offline',
]);
export type Reason = z.infer<typeof Reason>;

export const TargetState = z
  .enum(['up_to_date', 'offered', 'deferred', 'blocked'])
  .describe('`deferred` ends by itself, `blocked` when somebody changes something.');
export type TargetState = z.infer<typeof TargetState>;

export const Levels = z.object({ pin: Level, policy: Level, window: Level });

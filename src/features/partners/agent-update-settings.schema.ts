import { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import { ClockTime } from '../../platform/http/fields.ts';
import { ReleaseVersion } from '../../platform/semver.ts';

/**
 * How agents are upgraded (SPEC 9.8, 9.9): `settings.agentUpdates` of a partner and of an organization. A key that is not
 * known is refused, because a typo must not pass for a pin or a window that holds. `null` means that a field is not set.
 */

export const Weekday = z.enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']);

export const MaintenanceWindow = z
  .strictObject({
    days: z
      .array(Weekday)
      .min(1)
      .refine((days) => new Set(days).size === days.length, 'must not name a day twice')
      .describe('The days of UTC on which the window opens.'),
    start: ClockTime,
    end: ClockTime.describe('In UTC; a window whose end lies before its start closes on the next day.'),
  })
  .refine(({ start, end }) => start !== end, { path: ['end'], message: 'must differ from start' });
export type MaintenanceWindow = z.infer<typeof MaintenanceWindow>;

export const UpdatePolicy = z
  .enum(['auto', 'staged', 'manual'])
  .describe(
    '`auto`: what is promoted, at once. `staged`: when the wave of a rollout arrives. `manual`: only when somebody asks for it.',
  );
export type UpdatePolicy = z.infer<typeof UpdatePolicy>;

export const VersionPin = z
  .string()
  .refine(
    (pin) => pin === 'latest' || ReleaseVersion.safeParse(pin).success,
    'must be "latest" or a version such as 1.4.0 or 1.4.0-rc.2',
  );

export const AgentUpdateSettings = z
  .strictObject({
    pins: z
      .strictObject({ agent: VersionPin.nullable().optional(), watchdog: VersionPin.nullable().optional() })
      .nullable()
      .optional()
      .describe('A pin of an organization overrides the one of its partner, also with `latest`.'),
    policy: UpdatePolicy.nullable().optional(),
    maintenanceWindow: MaintenanceWindow.nullable().optional(),
  })
  .describe('A policy or a window that the partner sets applies to all its organizations.');
export type AgentUpdateSettings = z.infer<typeof AgentUpdateSettings>;

/** Throws where a version that is pinned is not registered. The registry provides it. */
export type CheckPins = (ctx: Pick<Context, 'tx'>, pins: AgentUpdateSettings['pins']) => Promise<void>;

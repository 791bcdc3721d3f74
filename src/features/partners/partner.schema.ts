import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import {
  JsonColumn,
  JsonInput,
  nfcText,
  Slug,
  Timestamp,
  ClockTime,
  Id,
  text,
  TimeZone,
} from '../../platform/http/fields.ts';
import type { Context } from '../../platform/context.ts';
import { ReleaseVersion } from '../../platform/semver.ts';

/**
 * How agents are upgraded (SPEC 9.8, 9.9): `settings.agentUpdates` of a partner and of an organization. A key that is not
 * known is refused, because a typo must not pass for a pin or a window that holds. `null` means that a field is not set.
 */

export const Weekday = z.enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']);
export type Weekday = z.infer<typeof Weekday>;

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
    '`auto`: what is promoted, at once. `staged`: when the wave of a rollout arrives. `manual`: only on request.',
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

/** Throws if a version that is pinned is not registered. The registry provides it. */
export type CheckPins = (ctx: Pick<Context, 'tx'>, pins: AgentUpdateSettings['pins']) => Promise<void>;

const Type = z.enum(['msp', 'enterprise', 'internal']);

const Plan = z.enum(['free', 'starter', 'community', 'pro', 'enterprise', 'unlimited']);

const Status = z.enum(['pending', 'active', 'suspended', 'churned']);

const Cap = z.number().int().min(0).max(2_147_483_647);

/** Partner settings (SPEC 2.2). A key that is not known is refused: a typo in a security setting must not pass for one
 * that took effect. `null` takes a key out. */

const Day = z.strictObject({ start: ClockTime, end: ClockTime, closed: z.boolean().optional() });

const WEEKDAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;

const AllowlistEntry = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'invalid allowlist entry: must be an IPv4 or IPv6 address, or a range such as 203.0.113.0/24',
);

const PartnerSettings = z.strictObject({
  timezone: TimeZone.nullable().optional(),
  dateFormat: z.enum(['MM/DD/YYYY', 'DD/MM/YYYY', 'YYYY-MM-DD']).nullable().optional(),
  timeFormat: z.enum(['12h', '24h']).nullable().optional(),
  language: z.literal('en', 'only "en" is supported').nullable().optional(),
  businessHours: z
    .strictObject({
      preset: z.enum(['24/7', 'business', 'extended', 'custom']).optional(),
      custom: z.partialRecord(z.enum(WEEKDAYS), Day).nullable().optional(),
    })
    .nullable()
    .optional(),
  contact: z
    .strictObject({
      name: nfcText(255, 0).nullable().optional(),
      email: EmailAddress.nullable().optional(),
      phone: text(50, 0).nullable().optional(),
      website: text(500, 0).nullable().optional(),
    })
    .nullable()
    .optional(),
  security: z
    .strictObject({
      ipAllowlist: z
        .array(AllowlistEntry)
        .max(1000)
        .optional()
        .describe(
          'Empty: no restriction. It governs the partner’s users and API keys, not its customers’ users.',
        ),
    })
    .optional(),
  organizationOrder: z.array(Id).max(100_000).optional(),
  agentUpdates: AgentUpdateSettings.nullable().optional(),
});
type PartnerSettings = z.infer<typeof PartnerSettings>;

type Json = Record<string, unknown>;

/** Only the keys sent are overwritten, at every level; `null` takes one out; a list is replaced whole. */
export function mergeSettings(kept: Json, sent: Json): Json {
  const merged: Json = { ...kept };
  for (const [key, value] of Object.entries(sent)) {
    if (value === null) delete merged[key];
    else if (value !== undefined) {
      merged[key] = isObject(value) ? mergeSettings(isObject(kept[key]) ? kept[key] : {}, value) : value;
    }
  }
  return merged;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The paths of what was sent, for the audit trail: `security.ipAllowlist`. */
export function changedPaths(sent: Json, prefix = ''): string[] {
  return Object.entries(sent).flatMap(([key, value]) =>
    isObject(value) ? changedPaths(value, `${prefix}${key}.`) : [`${prefix}${key}`],
  );
}

export const Partner = z
  .object({
    id: z.uuid(),
    name: z.string(),
    slug: z.string(),
    type: Type,
    plan: Plan,
    status: Status,
    maxOrganizations: z.number().int().nullable(),
    maxDevices: z.number().int().nullable(),
    settings: JsonColumn,
    ssoConfig: JsonColumn,
    billingEmail: z.string().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
    deletedAt: Timestamp.nullable(),
  })
  .meta({ id: 'Partner' });

const fields = {
  name: nfcText(255),
  slug: Slug,
  type: Type.optional(),
  plan: Plan.optional(),
  maxOrganizations: Cap.nullable().optional(),
  maxDevices: Cap.nullable().optional(),
  billingEmail: EmailAddress.nullable().optional(),
  settings: PartnerSettings.optional(),
  ssoConfig: JsonInput.optional(),
};

export const NewPartner = z.strictObject(fields);
export type NewPartner = z.infer<typeof NewPartner>;

/** Required if a change of the allowlist would shut out the address that it comes from. */
const force = z
  .boolean()
  .optional()
  .describe('Take an IP allowlist that does not hold the address this request comes from.');

export const PartnerPatch = z.strictObject({ ...fields, status: Status, force }).partial();
export type PartnerPatch = z.infer<typeof PartnerPatch>;

/** The fields that a partner changes of itself. */
export const OwnPartnerPatch = z
  .strictObject({ name: fields.name, billingEmail: fields.billingEmail, settings: fields.settings, force })
  .partial();
export type OwnPartnerPatch = z.infer<typeof OwnPartnerPatch>;

import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { ClockTime, Id, nfcText, text, TimeZone } from '../../platform/http/fields.ts';
import { AgentUpdateSettings } from './agent-update-settings.schema.ts';

/** Partner settings (SPEC 2.2). A key that is not known is refused: a typo in a security setting must not pass for one
 * that took effect. `null` takes a key out. */

const Day = z.strictObject({ start: ClockTime, end: ClockTime, closed: z.boolean().optional() });
const WEEKDAYS = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const;

export const AllowlistEntry = z.union(
  [z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()],
  'invalid allowlist entry: must be an IPv4 or IPv6 address, or a range such as 203.0.113.0/24',
);

export const PartnerSettings = z.strictObject({
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
export type PartnerSettings = z.infer<typeof PartnerSettings>;

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

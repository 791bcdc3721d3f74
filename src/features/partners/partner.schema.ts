import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { JsonColumn, JsonInput, nfcText, Slug, Timestamp } from '../../platform/http/fields.ts';
import { PartnerSettings } from './partner-settings.schema.ts';

const Type = z.enum(['msp', 'enterprise', 'internal']);
const Plan = z.enum(['free', 'starter', 'community', 'pro', 'enterprise', 'unlimited']);
const Status = z.enum(['pending', 'active', 'suspended', 'churned']);
const Cap = z.number().int().min(0).max(2_147_483_647);

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

/** Asked for where a change of the allowlist would shut out the very address it comes from. */
const force = z
  .boolean()
  .optional()
  .describe('Take an IP allowlist that does not hold the address this request comes from.');

export const PartnerPatch = z.strictObject({ ...fields, status: Status, force }).partial();
export type PartnerPatch = z.infer<typeof PartnerPatch>;

/** What a partner changes of itself. */
export const OwnPartnerPatch = z
  .strictObject({ name: fields.name, billingEmail: fields.billingEmail, settings: fields.settings, force })
  .partial();
export type OwnPartnerPatch = z.infer<typeof OwnPartnerPatch>;

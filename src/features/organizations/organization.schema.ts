import { z } from 'zod';
import {
  AnyJsonInput,
  Id,
  instantOrDay,
  isStorableJson,
  JsonColumn,
  JsonInput,
  nfcText,
  Slug,
  Timestamp,
  TimeZone,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { AgentUpdateSettings } from '../partners/index.ts';

const Type = z.enum(['customer', 'internal']);
const Status = z.enum(['active', 'suspended', 'trial', 'churned']);

export const Organization = z
  .object({
    id: z.uuid(),
    partnerId: z.uuid(),
    name: z.string(),
    slug: z.string(),
    type: Type,
    status: Status,
    maxDevices: z.number().int().nullable(),
    settings: JsonColumn,
    ssoConfig: JsonColumn,
    contractStart: Timestamp.nullable(),
    contractEnd: Timestamp.nullable(),
    billingContact: z.unknown().describe('Any JSON.'),
    createdAt: Timestamp,
    updatedAt: Timestamp,
    deletedAt: Timestamp.nullable(),
  })
  .meta({ id: 'Organization' });

/** Free-form JSON, except for what the server reads. */
const OrganizationSettings = z
  .looseObject({
    agentUpdates: AgentUpdateSettings.nullable().optional(),
    timezone: TimeZone.nullable()
      .optional()
      .describe('By which the months of its reports begin. Default: UTC.'),
  })
  .superRefine(isStorableJson);

const fields = {
  name: nfcText(255),
  slug: Slug,
  type: Type.optional(),
  status: Status.optional(),
  maxDevices: z.number().int().min(0).max(2_147_483_647).nullable().optional(),
  settings: OrganizationSettings.optional(),
  ssoConfig: JsonInput.optional(),
  contractStart: instantOrDay().nullable().optional(),
  contractEnd: instantOrDay().nullable().optional(),
  billingContact: AnyJsonInput.optional().describe('Any JSON; null clears it.'),
};

export const NewOrganization = z.strictObject({
  ...fields,
  partnerId: Id.optional().describe('Required in system scope; in partner scope the own partner, if given.'),
});
export type NewOrganization = z.infer<typeof NewOrganization>;

export const OrganizationPatch = z
  .strictObject({
    ...fields,
    partnerId: Id.optional().describe('Cannot be changed: taken only if it is the present one.'),
  })
  .partial();
export type OrganizationPatch = z.infer<typeof OrganizationPatch>;

export const OrganizationQuery = PageQuery.extend({ partnerId: Id.optional() });
export type OrganizationQuery = z.infer<typeof OrganizationQuery>;

export const OrganizationOrder = z.object({ organizationOrder: z.array(Id).max(100_000) });
export type OrganizationOrder = z.infer<typeof OrganizationOrder>;

import { z } from 'zod';
import {
  AnyJsonInput,
  Id,
  JsonColumn,
  JsonInput,
  nfcText,
  Timestamp,
  TimeZone,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const Site = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    address: z.unknown().describe('Any JSON.'),
    timezone: z.string(),
    contact: z.unknown().describe('Any JSON.'),
    settings: JsonColumn,
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Site' });

const fields = {
  name: nfcText(255),
  timezone: TimeZone.optional(),
  address: AnyJsonInput.optional().describe('Any JSON; null clears it.'),
  contact: AnyJsonInput.optional().describe('Any JSON; null clears it.'),
  settings: JsonInput.optional(),
};

export const NewSite = z.strictObject({ ...fields, orgId: Id });
export type NewSite = z.infer<typeof NewSite>;

export const SitePatch = z
  .strictObject({
    ...fields,
    orgId: Id.describe('Cannot be changed: taken only if it is the present one.'),
  })
  .partial();
export type SitePatch = z.infer<typeof SitePatch>;

export const SiteQuery = PageQuery.extend({
  orgId: Id.optional(),
  organizationId: Id.optional().describe('The same as orgId.'),
});
export type SiteQuery = z.infer<typeof SiteQuery>;

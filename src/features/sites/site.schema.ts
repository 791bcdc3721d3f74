import { z } from 'zod';
import { JsonColumn, JsonInput, text, TimeZone, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

export const Site = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    address: JsonColumn.nullable(),
    timezone: z.string(),
    contact: JsonColumn.nullable(),
    settings: JsonColumn,
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Site' });

const fields = {
  name: text(255),
  timezone: TimeZone.optional(),
  address: JsonInput.nullable().optional(),
  contact: JsonInput.nullable().optional(),
  settings: JsonInput.optional(),
};

export const NewSite = z.strictObject({ ...fields, orgId: z.uuid() });
export type NewSite = z.infer<typeof NewSite>;

export const SitePatch = z
  .strictObject({
    ...fields,
    orgId: z.uuid().describe('Cannot be changed: taken only where it is the present one.'),
  })
  .partial();
export type SitePatch = z.infer<typeof SitePatch>;

export const SiteQuery = PageQuery.extend({
  orgId: z.uuid().optional(),
  organizationId: z.uuid().optional().describe('The same as orgId.'),
});
export type SiteQuery = z.infer<typeof SiteQuery>;

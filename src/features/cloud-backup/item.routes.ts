import { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams, Id } from '../../platform/http/fields.ts';
import { NoBody } from '../../platform/http/file-answer.ts';
import { withoutPage } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { StreamAnswer } from '../../platform/http/stream-answer.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { storedBytes } from './cloud-backup.queries.ts';
import type { ContentParts } from './content-store.ts';
import { CloudItem, ContentQuery, ItemExport, ItemPage, ItemQuery, ItemVersions } from './item.schema.ts';
import { ItemExports, findItem, listItems, listVersions, toItemResponse } from './item.service.ts';

const noteOf = (answer: unknown) => (answer instanceof StreamAnswer ? answer.noted : []);

export const cloudItemRoutes = (parts: ContentParts): RouteGroup => {
  const exports = new ItemExports(parts);
  return {
    name: 'Cloud backup items',
    description: 'Messages, events, contacts and files that were backed up.',
    routes: [
      route({
        method: 'get',
        path: '/c2c/items',
        summary: 'List cloud backup items',
        description: 'In the order in which they were found. Pages follow by `after`.',
        access: everyScope('backup:read'),
        cost: 'expensive',
        query: ItemQuery,
        response: ItemPage,
        handler: ({ ctx, query }) => listItems(ctx, query),
        audit: {
          action: 'data.access',
          resource: 'c2c_config',
          note: ({ data }, { query }) =>
            [...new Set(data.map(({ orgId }) => orgId))].map((orgId) => ({
              orgId,
              details: { what: 'items', ...withoutPage(query) },
            })),
        },
      }),
      route({
        method: 'get',
        path: '/c2c/items/:id',
        summary: 'Read a cloud backup item',
        access: everyScope('backup:read'),
        params: IdParams,
        response: CloudItem,
        handler: async ({ ctx, params }) => toItemResponse(await findItem(ctx, params.id)),
        audit: {
          action: 'data.access',
          resource: 'c2c_item',
          coversPages: true,
          note: ({ id, orgId, subjectOrName }) => ({ orgId, resourceId: id, resourceName: subjectOrName }),
        },
      }),
      route({
        method: 'get',
        path: '/c2c/items/:id/versions',
        summary: 'List the stored contents of a cloud backup item',
        access: everyScope('backup:read'),
        params: IdParams,
        response: ItemVersions,
        handler: ({ ctx, params }) => listVersions(ctx, params.id),
        audit: {
          action: 'data.access',
          resource: 'c2c_item',
          coversPages: true,
          note: async (_answer, { ctx, params }) => {
            const { id, orgId, name } = await findItem(ctx, params.id);
            return { orgId, resourceId: id, resourceName: name, details: { what: 'versions' } };
          },
        },
      }),
      route({
        method: 'get',
        path: '/c2c/items/:id/content',
        summary: 'Download a cloud backup item',
        description: 'A message as .eml, an event as .ics, a contact as .vcf, a file as it was.',
        access: everyScope('recovery:execute'),
        params: IdParams,
        query: ContentQuery,
        response: NoBody,
        media: ['application/octet-stream'],
        errors: ['conflict', 'rate_limited'],
        prepare: ({ ctx, params, query, signal, closed }) =>
          exports.one(ctx, { ...params, ...query }, { signal, closed }),
        handler: ({ prepared }) => prepared,
        audit: { action: 'c2c.item.export', resource: 'c2c_item', alsoAs: 'data.export', note: noteOf },
      }),
      route({
        method: 'post',
        path: '/c2c/items/export',
        summary: 'Download cloud backup items as an archive',
        description: 'A tar archive of up to 1000 items of one configuration.',
        access: everyScope('recovery:execute'),
        bodyLimit: 100_000,
        body: ItemExport,
        response: NoBody,
        media: ['application/x-tar'],
        errors: ['conflict', 'rate_limited'],
        prepare: ({ ctx, body, signal, closed }) => exports.many(ctx, body.itemIds, { signal, closed }),
        handler: ({ prepared }) => prepared,
        audit: { action: 'c2c.item.export', resource: 'c2c_config', alsoAs: 'data.export', note: noteOf },
      }),
    ],
  };
};

const UsageQuery = z.object({ orgId: Id.optional() });

export const cloudUsageRoutes: RouteGroup = {
  name: 'Cloud backup usage',
  description: 'What cloud backups take in the backup store.',
  routes: [
    route({
      method: 'get',
      path: '/c2c/usage',
      summary: 'Read the space that cloud backups use in the backup store',
      access: everyScope('backup:read'),
      query: UsageQuery,
      response: z.object({
        storedBytes: z
          .number()
          .int()
          .nonnegative()
          .describe('Encrypted, with earlier contents. A content that several items share counts once.'),
      }),
      handler: ({ ctx, query }) => readUsage(ctx, query.orgId),
    }),
  ],
};

async function readUsage(ctx: Context, orgId: string | undefined): Promise<{ storedBytes: number }> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  return { storedBytes: await storedBytes(ctx, orgId) };
}

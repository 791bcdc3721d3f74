import type { DeviceHub } from '../../hub/index.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { type FilterReferrer, filterUsage } from './filter.queries.ts';
import {
  Explanation,
  ExplainRequest,
  Filter,
  FilterList,
  FilterPatch,
  FilterQuery,
  NewFilter,
  Preview,
  PreviewQuery,
  PreviewRequest,
  Usage,
} from './filter.schema.ts';
import {
  createFilter,
  deleteFilter,
  listFilters,
  showFilter,
  updateFilter,
  explain,
  previewConditions,
  previewFilter,
} from './filter.service.ts';
import { readFilter } from './stored-conditions.ts';

const may = (permission: string) => ({ scopes: ['organization', 'partner', 'system'] as const, permission });

/** The only limit on the nesting of conditions. */
const BODY_LIMIT = 1_048_576;

const about = ({ id, orgId, name }: { id: string; orgId: string; name: string }) => ({
  orgId,
  resourceId: id,
  resourceName: name,
});

interface Parts {
  hub: Pick<DeviceHub, 'events'>;
  /** Everything that can refer to a filter. */
  filterReferrers: readonly FilterReferrer[];
}

export const filterRoutes = (parts: Parts): RouteGroup => ({
  name: 'Filters',
  description: 'Saved conditions that find devices.',
  routes: [
    route({
      method: 'get',
      path: '/filters',
      summary: 'List saved filters of all accessible organizations, newest first',
      access: may('filters:read'),
      cost: 'expensive',
      query: FilterQuery,
      response: FilterList,
      handler: ({ ctx, query }) => listFilters(ctx, query),
    }),
    route({
      method: 'post',
      path: '/filters',
      summary: 'Save a filter',
      access: may('filters:write'),
      body: NewFilter,
      bodyLimit: BODY_LIMIT,
      response: Filter,
      status: 201,
      errors: ['tenant_inactive', 'limit_reached', 'payload_too_large'],
      handler: ({ ctx, body }) => createFilter(ctx, body),
      audit: { action: 'filter.create', resource: 'filter', note: about },
    }),
    route({
      method: 'post',
      path: '/filters/preview',
      summary: 'Preview the devices that match conditions',
      access: may('filters:read'),
      cost: 'expensive',
      body: PreviewRequest,
      bodyLimit: BODY_LIMIT,
      response: Preview,
      errors: ['payload_too_large', 'unavailable'],
      handler: ({ ctx, body }) => previewConditions(ctx, body),
      audit: {
        action: 'filter.preview',
        resource: 'filter',
        note: ({ data, conditionCount }) => ({
          details: { conditions: conditionCount, totalCount: data.totalCount },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/filters/explain',
      summary: 'Explain how conditions evaluate for one device',
      description: 'Takes either conditions or a saved filter.',
      access: may('filters:read'),
      body: ExplainRequest,
      bodyLimit: BODY_LIMIT,
      response: Explanation,
      errors: ['payload_too_large'],
      handler: ({ ctx, body }) => explain(ctx, body),
      unaudited: 'It changes nothing, and shows no more of a device than reading the device does.',
    }),
    route({
      method: 'get',
      path: '/filters/:id',
      summary: 'Read a saved filter',
      access: may('filters:read'),
      params: IdParams,
      response: Filter,
      handler: ({ ctx, params }) => showFilter(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/filters/:id',
      summary: 'Change a saved filter',
      access: may('filters:write'),
      params: IdParams,
      body: FilterPatch,
      bodyLimit: BODY_LIMIT,
      response: Filter,
      errors: ['tenant_inactive', 'payload_too_large'],
      handler: ({ ctx, params, body }) => updateFilter(ctx, params.id, body, parts),
      audit: {
        action: 'filter.update',
        resource: 'filter',
        note: ({ changedFields, ...filter }) => ({ ...about(filter), details: { changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/filters/:id',
      summary: 'Delete an unused saved filter',
      access: may('filters:delete'),
      params: IdParams,
      response: Filter,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params }) => deleteFilter(ctx, params.id, parts),
      audit: { action: 'filter.delete', resource: 'filter', note: about },
    }),
    route({
      method: 'post',
      path: '/filters/:id/preview',
      summary: 'Preview the devices that match a saved filter',
      access: may('filters:read'),
      cost: 'expensive',
      params: IdParams,
      query: PreviewQuery,
      response: Preview,
      errors: ['unavailable'],
      handler: ({ ctx, params, query }) => previewFilter(ctx, params.id, query.limit),
      audit: {
        action: 'filter.saved.preview',
        resource: 'filter',
        note: ({ data, filter }) => ({ ...about(filter), details: { totalCount: data.totalCount } }),
      },
    }),
    route({
      method: 'get',
      path: '/filters/:id/usage',
      summary: 'List the uses of a saved filter',
      access: may('filters:read'),
      params: IdParams,
      response: Usage,
      handler: async ({ ctx, params }) => {
        await readFilter(ctx, params.id);
        return { data: await filterUsage(ctx, params.id, parts.filterReferrers) };
      },
    }),
  ],
});

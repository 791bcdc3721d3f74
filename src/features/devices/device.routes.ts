import { z } from 'zod';
import { everyScope } from '../../platform/http/access.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { asReported } from './capabilities.ts';
import { costOfListing, Device, DeviceQuery } from './device.schema.ts';
import type { BulkParts } from './management/bulk.service.ts';
import { decommissionDevice } from './management/decommission.service.ts';
import { listDevices, readDevice } from './device.service.ts';
import { about, managementRoutes } from './management/management.routes.ts';

export function deviceRoutes(parts: BulkParts): RouteGroup {
  return {
    name: 'Devices',
    description: 'Managed devices and their connections.',
    routes: [
      route({
        method: 'get',
        path: '/devices',
        summary: 'List devices',
        access: everyScope('devices:read'),
        cost: costOfListing,
        query: DeviceQuery,
        response: pageOf(Device),
        handler: ({ ctx, query }) => listDevices(ctx, query),
      }),
      route({
        method: 'get',
        path: '/devices/:id',
        summary: 'Read a device',
        access: everyScope('devices:read'),
        params: IdParams,
        response: Device,
        handler: async ({ ctx, params }) => asReported(parts.hub, await readDevice(ctx, params.id)),
      }),
      route({
        method: 'delete',
        path: '/devices/:id',
        summary: 'Decommission a device',
        access: everyScope('devices:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['tenant_inactive'],
        handler: ({ ctx, params }) => decommissionDevice(ctx, params.id, parts),
        audit: { action: 'device.delete', resource: 'device', note: ({ device }) => about(device) },
      }),
      ...managementRoutes(parts),
    ],
  };
}

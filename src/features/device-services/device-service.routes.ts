import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { DeviceServicePage, DeviceServiceQuery } from './device-service.schema.ts';
import { listServices } from './device-service.service.ts';

export const deviceServiceRoutes: RouteGroup = {
  name: 'Services',
  description: 'The services of devices, as their agents report them. A change is known within some minutes.',
  routes: [
    route({
      method: 'get',
      path: '/devices/:id/services',
      summary: 'List the services of a device, by name',
      access: everyScope('devices:read'),
      params: IdParams,
      query: DeviceServiceQuery,
      response: DeviceServicePage,
      handler: ({ ctx, params, query }) => listServices(ctx, params.id, query),
    }),
  ],
};

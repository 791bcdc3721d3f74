import { z } from 'zod';
import type { DeviceHub } from '../../hub/index.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  Calendar,
  CalendarQuery,
  MaintenanceWindow,
  MaintenanceWindowPatch,
  MaintenanceWindowQuery,
  NewMaintenanceWindow,
  OccurrencePreview,
  PreviewRequest,
} from './maintenance-window.schema.ts';
import {
  createWindow,
  deleteWindow,
  endWindow,
  listWindows,
  previewOccurrences,
  readCalendar,
  readWindow,
  updateWindow,
  WINDOWS_MAX,
} from './maintenance-window.service.ts';

const READ = everyScope('devices:read');
const WRITE = everyScope('devices:write');

export const maintenanceWindowRoutes = ({ hub }: { hub: Pick<DeviceHub, 'devicesChanged'> }): RouteGroup => ({
  name: 'Maintenance windows',
  description:
    'Times in which work on devices is planned: no alerts are raised for their outages, and agents are not upgraded. An addition to the specification.',
  routes: [
    route({
      method: 'get',
      path: '/maintenance-windows',
      summary: 'List maintenance windows by name',
      description:
        'Those of partners are shown to users with access to all of the organizations of the partner.',
      access: READ,
      query: MaintenanceWindowQuery,
      response: pageOf(MaintenanceWindow),
      handler: ({ ctx, query }) => listWindows(ctx, query),
    }),
    route({
      method: 'post',
      path: '/maintenance-windows',
      summary: 'Plan a maintenance window',
      description: `It takes effect within seconds, and follows devices that join or leave its target within a minute. An organization can have ${WINDOWS_MAX} windows, and a partner ${WINDOWS_MAX} of its own.`,
      access: WRITE,
      body: NewMaintenanceWindow,
      response: MaintenanceWindow,
      status: 201,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, body }) => createWindow(ctx, body),
      audit: {
        action: 'maintenance_window.create',
        resource: 'maintenance_window',
        note: ({ target, start, timezone, durationMinutes, repeat, suppress, ...window }) => ({
          ...auditSubject(window),
          details: { target, start, timezone, durationMinutes, repeat, suppress },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/maintenance-windows/occurrences',
      summary: 'List the occurrences of all maintenance windows in a span of time',
      access: READ,
      cost: 'expensive',
      query: CalendarQuery,
      response: Calendar,
      handler: ({ ctx, query }) => readCalendar(ctx, query),
    }),
    route({
      method: 'post',
      path: '/maintenance-windows/preview',
      summary: 'Preview the next occurrences of a maintenance window that is being planned',
      access: READ,
      body: PreviewRequest,
      response: OccurrencePreview,
      handler: ({ body }) => Promise.resolve(previewOccurrences(body)),
      unaudited: 'It only computes times.',
    }),
    route({
      method: 'get',
      path: '/maintenance-windows/:id',
      summary: 'Read a maintenance window',
      access: READ,
      params: IdParams,
      response: MaintenanceWindow,
      handler: ({ ctx, params }) => readWindow(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/maintenance-windows/:id',
      summary: 'Change a maintenance window',
      description: 'A change of its times also concerns the occurrence that is in progress.',
      access: WRITE,
      params: IdParams,
      body: MaintenanceWindowPatch,
      response: MaintenanceWindow,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => updateWindow(ctx, params.id, body),
      audit: {
        action: 'maintenance_window.update',
        resource: 'maintenance_window',
        note: ({ changedFields, ...window }) => ({ ...auditSubject(window), details: { changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/maintenance-windows/:id',
      summary: 'Delete a maintenance window',
      description:
        'An occurrence that is in progress ends at once, without the time that devices otherwise have to come back.',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['tenant_inactive'],
      handler: ({ ctx, params }) => deleteWindow(ctx, params.id, hub),
      audit: {
        action: 'maintenance_window.delete',
        resource: 'maintenance_window',
        note: ({ window }) => auditSubject(window),
      },
    }),
    route({
      method: 'post',
      path: '/maintenance-windows/:id/end',
      summary: 'End the occurrence of a maintenance window that is in progress',
      description: 'Later occurrences happen as planned.',
      access: WRITE,
      params: IdParams,
      response: MaintenanceWindow,
      errors: ['conflict', 'tenant_inactive'],
      handler: ({ ctx, params }) => endWindow(ctx, params.id),
      audit: {
        action: 'maintenance_window.end',
        resource: 'maintenance_window',
        note: (window) => auditSubject(window),
      },
    }),
  ],
});

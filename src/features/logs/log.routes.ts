import { everyScope } from '../../platform/http/access.ts';
import { noteOfDevice } from '../devices/index.ts';
import { route, type AnyRoute, type RouteGroup } from '../../platform/http/route.ts';
import {
  DeviceParams,
  EntriesQuery,
  EntryOne,
  EntryPage,
  LogList,
  LogOne,
  LogParams,
  RecordParams,
} from './event-logs.schema.ts';
import type { LiveLogs } from './live-logs.service.ts';

const ACCESS = everyScope('devices:read');
const ERRORS = [
  'device_offline',
  'capability_missing',
  'device_busy',
  'device_error',
  'device_timeout',
] as const;

/** The four questions of SPEC 4.11, which stand under two prefixes; the list has a path of its own under /devices,
 * where the stored events have the plain one. */
export function liveLogRoutes({ logs }: { logs: LiveLogs }): RouteGroup {
  return {
    name: 'Live event logs',
    description: 'Read from the device while the caller waits, for at most 30 seconds. Nothing is stored.',
    routes: [
      ...questions(
        '/system-tools/devices/:deviceId/eventlogs',
        '/system-tools/devices/:deviceId/eventlogs',
        logs,
      ),
      ...questions('/devices/:deviceId/eventlogs/live', '/devices/:deviceId/eventlogs', logs),
    ],
  };
}

function questions(listPath: string, base: string, logs: LiveLogs): AnyRoute[] {
  return [
    route({
      method: 'get',
      path: listPath,
      summary: 'List the event logs of a device',
      access: ACCESS,
      transaction: false,
      params: DeviceParams,
      response: LogList,
      errors: ERRORS,
      handler: ({ ctx, params, signal }) => logs.list(ctx, params.deviceId, signal),
      audit: {
        action: 'data.access',
        resource: 'device',
        coversPages: true,
        note: (_answer, { ctx, params }) =>
          noteOfDevice(ctx, params.deviceId, { how: 'live', conditions: {} }),
      },
    }),
    route({
      method: 'get',
      path: `${base}/:name`,
      summary: 'Read an event log of a device by its name, ignoring case',
      access: ACCESS,
      transaction: false,
      params: LogParams,
      response: LogOne,
      errors: ERRORS,
      handler: ({ ctx, params, signal }) => logs.get(ctx, params.deviceId, params.name, signal),
      audit: {
        action: 'data.access',
        resource: 'device',
        coversPages: true,
        note: (_answer, { ctx, params: { deviceId, name } }) =>
          noteOfDevice(ctx, deviceId, { how: 'live', conditions: { name } }),
      },
    }),
    route({
      method: 'get',
      path: `${base}/:name/events`,
      summary: 'List the entries of an event log, newest first',
      description:
        'All conditions are applied on the device. After 30 seconds the response is 504, with the entries received so far in `details.partial`.',
      access: ACCESS,
      transaction: false,
      params: LogParams,
      query: EntriesQuery,
      response: EntryPage,
      errors: ERRORS,
      handler: ({ ctx, params, query, signal }) =>
        logs.entries(ctx, params.deviceId, params.name, query, signal),
    }),
    route({
      method: 'get',
      path: `${base}/:name/events/:recordId`,
      summary: 'Read an entry of an event log',
      access: ACCESS,
      transaction: false,
      params: RecordParams,
      response: EntryOne,
      errors: ERRORS,
      handler: ({ ctx, params, signal }) =>
        logs.entry(ctx, params.deviceId, params.name, params.recordId, signal),
    }),
  ];
}

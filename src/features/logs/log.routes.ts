import { everyScope } from '../../platform/http/authentication.ts';
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
  StoredEventPage,
  StoredEventQuery,
  DiagnosticLogPage,
  DiagnosticLogQuery,
} from './log.schema.ts';
import type { LiveLogs } from './live-logs.service.ts';
import { IdParams } from '../../platform/http/fields.ts';
import type { RepeatedReads } from '../audit/index.ts';
import {
  EventBatch,
  EventReceipt,
  LOG_BATCH_MAX_BYTES,
  DiagnosticBatch,
  DiagnosticReceipt,
  LOG_BATCH_MAX,
} from '../../protocol/index.ts';
import { listStoredEvents, storeEvents, listDiagnosticLogs } from './stored-logs.service.ts';
import { storeDiagnosticLines } from './log.queries.ts';
import { type LogBudgets, bytesOf } from './log-budgets.ts';
import type { LogPartitions } from './log-partitions.ts';

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

interface StoredLogParts {
  reads: RepeatedReads;
  logBudgets: LogBudgets;
  logPartitions: LogPartitions;
}

export const storedLogRoutes = ({ reads, logBudgets, logPartitions }: StoredLogParts): RouteGroup => ({
  name: 'Stored event logs',
  description: 'Events that devices have sent, which can be read while they are offline.',
  routes: [
    route({
      method: 'put',
      path: '/agents/:id/eventlogs',
      summary: 'Store events of the device',
      description:
        'Any number of events that fits into a body of 2 MB. Known events, by source and event id, are skipped. Texts that are too long are cut, which `truncated` in the details shows. Invalid events are skipped and listed in `refused`; the response is 400 if no event is valid. If the device or its organization has stored as much as it may in a day or in total, the response is 429 with the seconds until logs are taken again: until the next day (UTC), or a few minutes if the organization chose that its oldest logs are removed.',
      access: 'agent',
      params: IdParams,
      body: EventBatch,
      bodyLimit: LOG_BATCH_MAX_BYTES,
      response: EventReceipt,
      errors: ['rate_limited'],
      prepare: () => logPartitions.ensure(),
      handler: ({ ctx, body }) => storeEvents(ctx, body.events, logBudgets),
      audit: {
        action: 'agent.eventlogs.submit',
        resource: 'device',
        note: ({ hostname, audited }, { params }) => ({
          resourceId: params.id,
          resourceName: hostname,
          details: audited,
        }),
      },
    }),
    route({
      method: 'get',
      path: '/devices/:id/eventlogs',
      summary: 'List the stored events of a device, newest first',
      access: everyScope('devices:read'),
      cost: 'expensive',
      params: IdParams,
      query: StoredEventQuery,
      response: StoredEventPage,
      handler: ({ ctx, params, query }) => listStoredEvents(ctx, params.id, query, reads),
      audit: { action: 'data.access', resource: 'device', note: ({ noted }) => noted },
    }),
  ],
});

export const diagnosticLogRoutes = ({ reads, logBudgets, logPartitions }: StoredLogParts): RouteGroup => ({
  name: 'Diagnostic logs',
  description: 'The agents’ own logs, for diagnosing problems with an agent.',
  routes: [
    route({
      method: 'post',
      path: '/agents/:id/logs',
      summary: 'Store lines of the agent’s own log',
      description: `At most ${LOG_BATCH_MAX} lines at once. All of them are stored, or none: a 400 names the invalid line by its index. They count in the budgets of PUT /agents/{id}/eventlogs.`,
      access: 'agent',
      params: IdParams,
      body: DiagnosticBatch,
      bodyLimit: LOG_BATCH_MAX_BYTES,
      response: DiagnosticReceipt,
      status: 201,
      errors: ['rate_limited'],
      prepare: () => logPartitions.ensure(),
      handler: ({ ctx, body: { logs } }) =>
        logBudgets.spend(ctx, async () => {
          const bytes = logs.reduce(
            (sum, { component, message, fields }) => sum + bytesOf([component, message], fields),
            0,
          );
          const answer = await storeDiagnosticLines(ctx, logs);
          return { answer, stored: { entries: logs.length, bytes } };
        }),
      unaudited: 'lines of a log, many times an hour',
    }),
    route({
      method: 'get',
      path: '/devices/:id/diagnostic-logs',
      summary: 'List the log of a device’s agent, newest first',
      access: everyScope('devices:read'),
      cost: 'expensive',
      params: IdParams,
      query: DiagnosticLogQuery,
      response: DiagnosticLogPage,
      handler: ({ ctx, params, query }) => listDiagnosticLogs(ctx, params.id, query, reads),
      audit: { action: 'data.access', resource: 'device', note: ({ noted }) => noted },
    }),
  ],
});

import { everyScope } from '../../platform/http/authentication.ts';
import { type AnyRoute, route, type RouteGroup } from '../../platform/http/route.ts';
import { ServiceAction } from '../../protocol/index.ts';
import { noteOfDevice } from '../devices/index.ts';
import type { LiveTools } from './live-tools.service.ts';
import {
  DeviceParams,
  EndProcess,
  LiveServiceList,
  ProcessEnd,
  ProcessList,
  ProcessParams,
  ServiceControlled,
  ServiceParams,
} from './system-tools.schema.ts';

const READS = everyScope('devices:read');
const ACTS = everyScope('devices:execute');
const ERRORS = [
  'device_offline',
  'capability_missing',
  'device_busy',
  'device_error',
  'device_timeout',
] as const;

const BASE = '/system-tools/devices/:deviceId';

export function systemToolRoutes({ tools }: { tools: LiveTools }): RouteGroup {
  return {
    name: 'Processes and services, live',
    description:
      'What runs on a device now. It is read from the device while the caller waits, for at most 30 seconds, and not stored; a device that is not connected is refused at once, and no action waits for it.',
    routes: [
      route({
        method: 'get',
        path: `${BASE}/processes`,
        summary: 'List the running processes of a device',
        description:
          'The device reads its processes twice, about a second apart. At most 1,000 are listed: those that use the most of the processors and of the memory. `meta.total` says how many there are.',
        access: READS,
        transaction: false,
        params: DeviceParams,
        response: ProcessList,
        errors: ERRORS,
        handler: ({ ctx, params, signal }) => tools.processes(ctx, params.deviceId, signal),
        audit: {
          action: 'data.access',
          resource: 'device',
          coversPages: true,
          note: (_answer, { ctx, params }) =>
            noteOfDevice(ctx, params.deviceId, { how: 'live', what: 'processes' }),
        },
      }),
      route({
        method: 'post',
        path: `${BASE}/processes/:pid/end`,
        summary: 'End a process of a device',
        description:
          'The process is asked to end, and ended by force after `graceSeconds`. The response is 404 if there is no such process, and 409 if its number belongs to another one now, or if it is one that the agent never ends: its own ones and those that the system needs.',
        access: ACTS,
        transaction: false,
        params: ProcessParams,
        body: EndProcess,
        response: ProcessEnd,
        errors: [...ERRORS, 'conflict'],
        handler: ({ ctx, params, body }) => tools.endProcess(ctx, params.deviceId, params.pid, body),
        audit: {
          action: 'device.process.end',
          resource: 'device',
          note: ({ about, pid, name, user, outcome, graceSeconds }, { body }) => ({
            ...about,
            details: {
              pid,
              name,
              ...(user === undefined ? {} : { user }),
              startedAt: body.startedAt.toISOString(),
              graceSeconds,
              before: { state: 'running' },
              after: { state: STATE_AFTER[outcome] },
            },
          }),
        },
      }),
      route({
        method: 'get',
        path: `${BASE}/services`,
        summary: 'List the services of a device as they are now',
        description:
          'GET /devices/{id}/services lists what the device reported last, also while it is offline.',
        access: READS,
        transaction: false,
        params: DeviceParams,
        response: LiveServiceList,
        errors: ERRORS,
        handler: ({ ctx, params, signal }) => tools.services(ctx, params.deviceId, signal),
        audit: {
          action: 'data.access',
          resource: 'device',
          coversPages: true,
          note: (_answer, { ctx, params }) =>
            noteOfDevice(ctx, params.deviceId, { how: 'live', what: 'services' }),
        },
      }),
      ...ServiceAction.options.map((action) => controlRoute(action, tools)),
    ],
  };
}

const STATE_AFTER = { ended: 'ended', killed: 'killed', still_running: 'running' } as const;

const SUMMARIES: Readonly<Record<ServiceAction, string>> = {
  start: 'Start a service of a device',
  stop: 'Stop a service of a device',
  restart: 'Restart a service of a device',
};

const controlRoute = (action: ServiceAction, tools: LiveTools): AnyRoute =>
  route({
    method: 'post',
    path: `${BASE}/services/:name/${action}`,
    summary: SUMMARIES[action],
    description:
      'The name is that of a service which the device lists; otherwise the response is 404. The agent reports the new state, so that the stored services show it soon after.',
    access: ACTS,
    transaction: false,
    params: ServiceParams,
    response: ServiceControlled,
    errors: action === 'start' ? ERRORS : [...ERRORS, 'conflict'],
    handler: ({ ctx, params }) => tools.control(ctx, params.deviceId, params.name, action),
    audit: {
      action: `device.service.${action}`,
      resource: 'device',
      // Both states, also if they are the same, as after most restarts.
      note: ({ about, name, before, after }) => ({
        ...about,
        details: { service: name, before: { state: before }, after: { state: after } },
      }),
    },
  });

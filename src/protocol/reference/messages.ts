import { OkAck } from '../agent-messages.ts';
import {
  DASHBOARD_EVENTS,
  DashboardHandshake,
  type DashboardToHub,
  DevicesDelta,
  DevicesEnded,
  HubState,
  type DeviceSummary,
  DevicesSnapshot,
  EventLogsEnd,
  EventLogsRows,
  type HubToDashboard,
  QueryStarted,
} from '../dashboard-messages.ts';
import { JobOutput, JobsSnapshot, JobUpdate } from '../jobs.ts';
import { DASHBOARD_NAMESPACE, HUB_PATH } from '../version.ts';
import { LOG_ENTRY } from './command-types.ts';
import { type Described, inDirection, OK, type SocketNamespace } from './message.ts';

const ORGANIZATION = '0198f1d2-1111-7abc-8def-000000000001';
const SITE = '0198f1d2-2222-7abc-8def-000000000002';
const DEVICE_ID = '0198f1d2-3333-7abc-8def-000000000003';
const JOB_ID = '0198f1d2-7c1a-7f3e-9b57-2d6d1c0e4a11';
const SUBSCRIPTION = 's1';
const QUERY = 'q1';

const DEVICE: DeviceSummary = {
  id: DEVICE_ID,
  orgId: ORGANIZATION,
  siteId: SITE,
  hostname: 'web-01',
  displayName: null,
  osType: 'linux',
  agentVersion: '1.4.0',
  status: 'online',
  presence: { state: 'connected', since: '2026-01-31T07:12:00.000Z', reason: 'connected' },
  lastSeenAt: '2026-01-31T08:00:00.000Z',
  metrics: { cpuPercent: 12.5, ramPercent: 48.1, diskPercent: 71 },
};
const COUNTS = { total: 1, byStatus: { online: 1 } };
const JOB: JobUpdate = {
  id: JOB_ID,
  kind: 'script.run',
  orgId: ORGANIZATION,
  deviceId: DEVICE_ID,
  state: 'running',
  phase: 'running',
  at: '2026-01-31T08:00:01.000Z',
};

const CONNECTING = {
  handshake: {
    summary: 'The client sends this as `auth` when it connects.',
    payload: DashboardHandshake,
    example: { token: 'eyJhbGciOi…' },
  },
} satisfies Record<string, Described>;

const FROM_CLIENTS: Record<keyof DashboardToHub, Described> = {
  'devices:subscribe': {
    summary:
      'Subscribes to devices. The acknowledgement is a snapshot; `devices:delta` then reports the changes.',
    payload: DASHBOARD_EVENTS['devices:subscribe'],
    example: { orgId: ORGANIZATION },
    ack: DevicesSnapshot,
    ackExample: {
      ok: true,
      subscriptionId: SUBSCRIPTION,
      seq: 0,
      devices: [DEVICE],
      counts: COUNTS,
      complete: true,
    },
  },
  'devices:unsubscribe': {
    summary: 'Ends a subscription to devices.',
    payload: DASHBOARD_EVENTS['devices:unsubscribe'],
    example: { subscriptionId: SUBSCRIPTION },
    ack: OkAck,
    ackExample: OK,
  },
  'eventlogs:query': {
    summary:
      'Asks many devices for entries of a log. `eventlogs:rows` brings the entries, `eventlogs:end` the outcome.',
    payload: DASHBOARD_EVENTS['eventlogs:query'],
    example: { deviceIds: [DEVICE_ID], name: 'System', level: ['error'], limit: 50 },
    ack: QueryStarted,
    ackExample: { ok: true, queryId: QUERY },
  },
  'eventlogs:tail': {
    summary: 'Follows the new entries of one log of one device, for an hour at most.',
    payload: DASHBOARD_EVENTS['eventlogs:tail'],
    example: { deviceId: DEVICE_ID, name: 'System' },
    ack: QueryStarted,
    ackExample: { ok: true, queryId: QUERY },
  },
  'eventlogs:cancel': {
    summary: 'Ends a query or a tail.',
    payload: DASHBOARD_EVENTS['eventlogs:cancel'],
    example: { queryId: QUERY },
    ack: OkAck,
    ackExample: OK,
  },
  'jobs:subscribe': {
    summary:
      'Subscribes to jobs: to all that the caller may see, or to those that the one given field selects.',
    payload: DASHBOARD_EVENTS['jobs:subscribe'],
    example: { deviceId: DEVICE_ID },
    ack: JobsSnapshot,
    ackExample: { ok: true, jobs: [JOB] },
  },
  'jobs:unsubscribe': {
    summary: 'Ends the subscription to jobs that was made with the same fields.',
    payload: DASHBOARD_EVENTS['jobs:unsubscribe'],
    example: { deviceId: DEVICE_ID },
    ack: OkAck,
    ackExample: OK,
  },
};

const TO_CLIENTS: Record<keyof HubToDashboard, Described> = {
  'hub:state': {
    summary:
      'Says whether the server reaches the other servers: when that changes, and at the beginning where it does not.',
    payload: HubState,
    example: { isWhole: false },
  },
  'devices:delta': {
    summary: 'Reports what has changed since the last delta. There are at most four a second.',
    payload: DevicesDelta,
    example: {
      subscriptionId: SUBSCRIPTION,
      seq: 1,
      changed: [
        {
          id: DEVICE_ID,
          status: 'offline',
          presence: { state: 'disconnected', since: '2026-01-31T08:01:30.000Z', reason: 'heartbeat_missed' },
        },
      ],
      entered: [],
      left: [],
      counts: { total: 1, byStatus: { offline: 1 } },
    },
  },
  'devices:ended': {
    summary: 'Ends a subscription that cannot continue, such as one whose filter was deleted.',
    payload: DevicesEnded,
    example: { subscriptionId: SUBSCRIPTION, code: 'NOT_FOUND', message: 'Filter not found.' },
  },
  'eventlogs:rows': {
    summary: 'Brings entries of one device.',
    payload: EventLogsRows,
    example: { queryId: QUERY, deviceId: DEVICE_ID, rows: [LOG_ENTRY] },
  },
  'eventlogs:end': {
    summary: 'Ends a query or a tail with the outcome for each device.',
    payload: EventLogsEnd,
    example: {
      queryId: QUERY,
      outcomes: [{ deviceId: DEVICE_ID, outcome: 'answered', rows: 1, scanned: 18_240, truncated: false }],
    },
  },
  'job:update': {
    summary: 'Reports a change of a job.',
    payload: JobUpdate,
    example: JOB,
  },
  'job:output': {
    summary: 'Brings what a job prints, to the subscribers of that one job.',
    payload: JobOutput,
    example: { id: JOB_ID, seq: 0, rows: [{ stream: 'stdout', text: 'hello\n' }] },
  },
};

export const DASHBOARD_REFERENCE: SocketNamespace = {
  namespace: DASHBOARD_NAMESPACE,
  intro: `For the clients of users. Connect with Socket.IO 4 over the websocket transport at the path ${HUB_PATH}. Each event that the client sends is acknowledged.`,
  messages: [
    ...inDirection('client → hub, as auth', CONNECTING),
    ...inDirection('client → hub', FROM_CLIENTS),
    ...inDirection('hub → client', TO_CLIENTS),
  ],
};

import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { SocketDocs } from './platform/http/docs.ts';
import { MIGRATIONS_DIR } from './platform/db/migrations.ts';
import {
  AGENT_EVENTS,
  AGENT_NAMESPACE,
  AgentHandshake,
  CommandCancel,
  CommandFrame,
  COMMANDS,
  DASHBOARD_EVENTS,
  DASHBOARD_NAMESPACE,
  DashboardHandshake,
  DevicesDelta,
  DevicesSnapshot,
  EventLogsEnd,
  EventLogsRows,
  HeartbeatAck,
  HubReconnect,
  JobOutput,
  JobsSnapshot,
  JobUpdate,
  OkAck,
  QueryStarted,
} from './protocol/index.ts';

const packageJson = JSON.parse(
  readFileSync(path.join(path.dirname(MIGRATIONS_DIR), 'package.json'), 'utf8'),
) as { version: string };

/** The running release; `SVC_VERSION` selects images, this is what is inside. */
export const VERSION = packageJson.version;

export const API_INFO = {
  title: 'Muster',
  version: VERSION,
  description:
    'Multi-tenant device management. Sign in with POST /auth/login and send the access token as bearer token. ' +
    'Every failure has the same body: `error` for a person, `code` for a program, `requestId` for the log. ' +
    'The socket messages are described at /docs/sockets.',
};

/** What /docs/sockets shows: the very schemas that the sockets parse with. */
export const SOCKET_DOCS: SocketDocs = [
  {
    namespace: AGENT_NAMESPACE,
    intro:
      'Socket.IO 4, websocket transport, path /hub. The handshake goes as `auth`. Every event is acknowledged.',
    events: [
      { name: 'handshake', direction: 'agent → hub, as auth', payload: AgentHandshake },
      ...Object.entries(AGENT_EVENTS).map(([name, payload]) => ({
        name,
        direction: 'agent → hub',
        payload,
        answer: name === 'heartbeat' ? HeartbeatAck : OkAck,
      })),
      { name: 'command', direction: 'hub → agent', payload: CommandFrame, answer: OkAck },
      { name: 'command:cancel', direction: 'hub → agent', payload: CommandCancel, answer: OkAck },
      { name: 'hub:reconnect', direction: 'hub → agent', payload: HubReconnect, answer: OkAck },
      ...Object.entries(COMMANDS).map(([name, { payload, output }]) => ({
        name: `command type ${name}`,
        direction: 'payload of a command, and its output',
        payload,
        answer: output,
      })),
    ],
  },
  {
    namespace: DASHBOARD_NAMESPACE,
    intro:
      'For people: the handshake carries an access token. After devices:subscribe come deltas, four a second at most; a gap in seq means subscribe again.',
    events: [
      { name: 'handshake', direction: 'client → hub, as auth', payload: DashboardHandshake },
      {
        name: 'devices:subscribe',
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS['devices:subscribe'],
        answer: DevicesSnapshot,
      },
      {
        name: 'devices:unsubscribe',
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS['devices:unsubscribe'],
        answer: OkAck,
      },
      { name: 'devices:delta', direction: 'hub → client', payload: DevicesDelta },
      ...(['eventlogs:query', 'eventlogs:tail'] as const).map((name) => ({
        name,
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS[name],
        answer: QueryStarted,
      })),
      {
        name: 'eventlogs:cancel',
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS['eventlogs:cancel'],
        answer: OkAck,
      },
      { name: 'eventlogs:rows', direction: 'hub → client', payload: EventLogsRows },
      { name: 'eventlogs:end', direction: 'hub → client', payload: EventLogsEnd },
      {
        name: 'jobs:subscribe',
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS['jobs:subscribe'],
        answer: JobsSnapshot,
      },
      {
        name: 'jobs:unsubscribe',
        direction: 'client → hub',
        payload: DASHBOARD_EVENTS['jobs:unsubscribe'],
        answer: OkAck,
      },
      { name: 'job:update', direction: 'hub → client', payload: JobUpdate },
      { name: 'job:output', direction: 'hub → client', payload: JobOutput },
    ],
  },
];

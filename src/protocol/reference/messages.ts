import {
  AGENT_EVENTS,
  AgentHandshake,
  type AgentToHub,
  CommandCancel,
  CommandFrame,
  HeartbeatAck,
  HubReconnect,
  type HubToAgent,
  OkAck,
  Refusal,
} from '../agent-messages.ts';
import { AGENT_NAMESPACE, HUB_PATH, PROTOCOL_VERSION, DASHBOARD_NAMESPACE } from '../version.ts';
import { COMMAND_TYPE_MESSAGES, LOG_ENTRY } from './command-types.ts';
import { type Described, inDirection, OK, type SocketNamespace } from './message.ts';
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
import { TerminalClosed, TerminalControl, TerminalOpened, TerminalOutput } from '../terminals.ts';

const COMMAND_ID = '0198f1d2-7c1a-7f3e-9b57-2d6d1c0e4a11';

const AGENT_CONNECTING = {
  handshake: {
    summary: 'The agent sends this as `auth` when it connects.',
    payload: AgentHandshake,
    example: {
      token: 'magt_4fJ0…',
      protocol: PROTOCOL_VERSION,
      agentVersion: '1.4.0',
      capabilities: ['eventlogs.query', 'script.run', 'agent.reboot'],
      bootId: '5a0c7c3e-0e0b-4a53-8f0b-8f5a5d0f7c11',
    },
  },
} satisfies Record<string, Described>;

const REFUSING = {
  connect_error: {
    summary: 'The hub refuses the connection. This is the `data` of the error.',
    payload: Refusal,
    example: { code: 'BUSY', retryAfterMs: 4000 },
  },
} satisfies Record<string, Described>;

const FROM_AGENTS: Record<keyof AgentToHub, Described> = {
  heartbeat: {
    summary:
      'Reports that the agent works, and facts about the machine. The first one follows the connection at once; the acknowledgement of each says when the next one is due.',
    payload: AGENT_EVENTS.heartbeat,
    example: {
      at: '2026-01-31T08:00:00.000Z',
      agentVersion: '1.4.0',
      osVersion: 'Debian GNU/Linux 12 (bookworm)',
      osBuild: '6.1.0-31-amd64',
      uptimeSeconds: 864_000,
      metrics: { cpuPercent: 12.5, ramPercent: 48.1, diskPercent: 71 },
      ipAddresses: ['192.0.2.14'],
      autoUpdate: true,
    },
    ack: HeartbeatAck,
    ackExample: { ok: true, at: '2026-01-31T08:00:00.045Z', nextInMs: 30_000, upgrade: [] },
  },
  'command:progress': {
    summary:
      'Reports that a durable command runs and its progress. The agent sends at most one per second for each command.',
    payload: AGENT_EVENTS['command:progress'],
    example: { id: COMMAND_ID, seq: 3, phase: 'copying', percent: 42, done: 42, total: 100, etaSeconds: 58 },
    ack: OkAck,
    ackExample: OK,
  },
  'command:rows': {
    summary:
      'Sends rows of a command that streams. The agent waits for the acknowledgement before the next frame.',
    payload: AGENT_EVENTS['command:rows'],
    example: { id: COMMAND_ID, seq: 0, rows: [{ stream: 'stdout', text: 'hello\n' }], done: false },
    ack: OkAck,
    ackExample: OK,
  },
  'command:result': {
    summary:
      'Ends a command. The agent sends the result of a durable command again until it is acknowledged.',
    payload: AGENT_EVENTS['command:result'],
    example: {
      id: COMMAND_ID,
      epoch: 17,
      status: 'succeeded',
      output: { exitCode: 0, stdout: 'hello\n', stderr: '', truncated: false },
      startedAt: '2026-01-31T08:00:01.000Z',
      finishedAt: '2026-01-31T08:00:02.250Z',
    },
    ack: OkAck,
    ackExample: OK,
  },
  'update:status': {
    summary: 'Reports the progress of an upgrade.',
    payload: AGENT_EVENTS['update:status'],
    example: { component: 'agent', targetVersion: '1.5.0', phase: 'verifying' },
    ack: OkAck,
    ackExample: OK,
  },
  'metrics:samples': {
    summary:
      'Sends samples of the machine’s figures, which the agent takes each minute and keeps for up to 24 hours until they are acknowledged: acknowledged samples are stored. A hub that keeps no history answers with `UNKNOWN_EVENT`; the agent then sends none until it connects again.',
    payload: AGENT_EVENTS['metrics:samples'],
    example: {
      samples: [
        {
          at: '2026-01-31T08:00:00.000Z',
          cpuPercent: 12.5,
          ramPercent: 48.1,
          swapPercent: 0,
          load: 0.31,
          uptimeSeconds: 864_000,
          networkReceivedPerSecond: 12_288,
          networkSentPerSecond: 4096,
          diskReadPerSecond: 0,
          diskWrittenPerSecond: 65_536,
          volumes: [{ volume: '/', usedBytes: 71_000_000_000, totalBytes: 100_000_000_000 }],
          processes: [{ process: 'postgres', cpuPercent: 11.2, ramPercent: 20.5 }],
        },
      ],
    },
    ack: OkAck,
    ackExample: OK,
  },
  'services:report': {
    summary:
      'Reports the services of the machine: all of them when the agent has started and once a day, otherwise those that have changed since the report that was acknowledged last. The agent looks once a minute, or less often if that takes long. A hub that does not know services answers with `UNKNOWN_EVENT`; the agent then reports none until it connects again.',
    payload: AGENT_EVENTS['services:report'],
    example: {
      manager: 'windows',
      isComplete: false,
      services: [
        {
          name: 'Spooler',
          displayName: 'Print Spooler',
          state: 'stopped',
          startMode: 'automatic',
          since: '2026-01-31T08:00:00.000Z',
        },
      ],
    },
    ack: OkAck,
    ackExample: OK,
  },
};

const TO_AGENTS: Record<keyof HubToAgent, Described> = {
  command: {
    summary:
      'Sends a command. The agent acknowledges a durable command when it is on disk, and runs each id once, however often it arrives.',
    payload: CommandFrame,
    example: {
      id: COMMAND_ID,
      type: 'script.run',
      payload: { language: 'bash', content: 'echo hello', timeoutSeconds: 60 },
      epoch: 17,
      deadline: '2026-01-31T08:05:00.000Z',
      attempt: 1,
    },
    ack: OkAck,
    ackExample: OK,
  },
  'command:cancel': {
    summary:
      'Cancels a command. The agent then sends the result `cancelled`, unless the command has already ended.',
    payload: CommandCancel,
    example: { id: COMMAND_ID },
    ack: OkAck,
    ackExample: OK,
  },
  'terminal:control': {
    summary:
      'Input, a new size, a confirmation of output or the end of a terminal. A terminal that gets none for a minute has no viewer.',
    payload: TerminalControl,
    example: { id: COMMAND_ID, input: 'ls\r', taken: 1024 },
    ack: OkAck,
    ackExample: OK,
  },
  'hub:reconnect': {
    summary: 'Announces that the hub closes the connection, and when the agent should connect again.',
    payload: HubReconnect,
    example: { afterMs: 8000, reason: 'draining' },
    ack: OkAck,
    ackExample: OK,
  },
};

export const AGENT_REFERENCE: SocketNamespace = {
  namespace: AGENT_NAMESPACE,
  intro: `For agents. Connect with Socket.IO 4 over the websocket transport at the path ${HUB_PATH}. Each event is acknowledged. Times are ISO 8601 with an offset.`,
  messages: [
    ...inDirection('agent → hub, as auth', AGENT_CONNECTING),
    ...inDirection('hub → agent, as error', REFUSING),
    ...inDirection('agent → hub', FROM_AGENTS),
    ...inDirection('hub → agent', TO_AGENTS),
    ...COMMAND_TYPE_MESSAGES,
  ],
};

const ORGANIZATION = '0198f1d2-1111-7abc-8def-000000000001';
const SITE = '0198f1d2-2222-7abc-8def-000000000002';
const DEVICE_ID = '0198f1d2-3333-7abc-8def-000000000003';
const JOB_ID = '0198f1d2-7c1a-7f3e-9b57-2d6d1c0e4a11';
const TERMINAL = '0198f1d2-4444-7abc-8def-000000000004';
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
  maintenance: null,
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

const DASHBOARD_CONNECTING = {
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
  'terminal:open': {
    summary:
      'Opens a terminal of a device, or continues one. It needs the permission devices:terminal, a second factor no older than 15 minutes, and an organization that allows terminals. The output is recorded.',
    payload: DASHBOARD_EVENTS['terminal:open'],
    example: { deviceId: DEVICE_ID, cols: 80, rows: 24 },
    ack: TerminalOpened,
    ackExample: {
      ok: true,
      terminalId: TERMINAL,
      resumeToken: 'f3Jk…',
      mode: 'pty',
      shell: '/bin/bash',
      notice: 'nobody',
      offset: 0,
    },
  },
  'terminal:data': {
    summary:
      'Sends input to a terminal, and confirms output that was shown. Output stops until it is confirmed.',
    payload: DASHBOARD_EVENTS['terminal:data'],
    example: { terminalId: TERMINAL, data: 'ls\r', taken: 1024 },
    ack: OkAck,
    ackExample: OK,
  },
  'terminal:resize': {
    summary: 'Tells the terminal its size.',
    payload: DASHBOARD_EVENTS['terminal:resize'],
    example: { terminalId: TERMINAL, cols: 120, rows: 40 },
    ack: OkAck,
    ackExample: OK,
  },
  'terminal:close': {
    summary: 'Ends a terminal.',
    payload: DASHBOARD_EVENTS['terminal:close'],
    example: { terminalId: TERMINAL },
    ack: OkAck,
    ackExample: OK,
  },
};

const TO_CLIENTS: Record<keyof HubToDashboard, Described> = {
  'hub:state': {
    summary:
      'Reports whether the server reaches the other servers: when that changes, and at the beginning if it does not.',
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
    summary: 'Brings the output of a job, to the subscribers of that job.',
    payload: JobOutput,
    example: { id: JOB_ID, seq: 0, rows: [{ stream: 'stdout', text: 'hello\n' }] },
  },
  'terminal:data': {
    summary: 'Output of a terminal.',
    payload: TerminalOutput,
    example: { terminalId: TERMINAL, offset: 1024, data: 'README.md\r\n', received: 3 },
  },
  'terminal:close': {
    summary: 'A terminal has ended, or this client views it no longer.',
    payload: TerminalClosed,
    example: { terminalId: TERMINAL, reason: 'exited', exitCode: 0, canContinue: false },
  },
};

export const DASHBOARD_REFERENCE: SocketNamespace = {
  namespace: DASHBOARD_NAMESPACE,
  intro: `For the clients of users. Connect with Socket.IO 4 over the websocket transport at the path ${HUB_PATH}. Each event that the client sends is acknowledged.`,
  messages: [
    ...inDirection('client → hub, as auth', DASHBOARD_CONNECTING),
    ...inDirection('client → hub', FROM_CLIENTS),
    ...inDirection('hub → client', TO_CLIENTS),
  ],
};

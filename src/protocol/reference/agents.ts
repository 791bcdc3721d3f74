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
import { AGENT_NAMESPACE, HUB_PATH, PROTOCOL_VERSION } from '../version.ts';
import { COMMAND_TYPE_MESSAGES } from './command-types.ts';
import { type Described, inDirection, OK, type SocketNamespace } from './message.ts';

const COMMAND_ID = '0198f1d2-7c1a-7f3e-9b57-2d6d1c0e4a11';

const CONNECTING = {
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
      'Reports that a durable command runs and how far it is. The agent sends at most one a second for each command.',
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
    summary: 'Reports the progress of an update of the agent.',
    payload: AGENT_EVENTS['update:status'],
    example: { component: 'agent', targetVersion: '1.5.0', phase: 'verifying' },
    ack: OkAck,
    ackExample: OK,
  },
};

const TO_AGENTS: Record<keyof HubToAgent, Described> = {
  command: {
    summary:
      'Sends a command. The agent acknowledges a durable command when it is on disk, and carries out each id once, however often it arrives.',
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
    ...inDirection('agent → hub, as auth', CONNECTING),
    ...inDirection('hub → agent, as error', REFUSING),
    ...inDirection('agent → hub', FROM_AGENTS),
    ...inDirection('hub → agent', TO_AGENTS),
    ...COMMAND_TYPE_MESSAGES,
  ],
};

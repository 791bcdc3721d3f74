import {
  COMMANDS,
  type CommandOutput,
  type CommandPayload,
  type CommandType,
  isDurable,
  laneOf,
} from '../commands/index.ts';
import type { SocketMessage } from './message.ts';

interface CommandExample<T extends CommandType> {
  summary: string;
  payload: CommandPayload<T>;
  output: CommandOutput<T>;
}

const LOG = {
  name: 'System',
  displayName: 'System log',
  recordCount: 18_240,
  maxSize: 0,
  retentionDays: 0,
  lastWriteTime: '2026-01-31T07:59:58.000Z',
  source: 'journald',
} as const;

export const LOG_ENTRY = {
  recordId: 18_240,
  timeCreated: '2026-01-31T07:59:58.000Z',
  level: 'error',
  source: 'sshd',
  eventId: 0,
  message: 'Failed password for root from 203.0.113.9',
  category: 'auth',
  user: null,
  computer: 'web-01',
} as const;

const EXAMPLES: { [T in CommandType]: CommandExample<T> } = {
  'eventlogs.list': { summary: 'Lists the logs of the device.', payload: {}, output: { logs: [LOG] } },
  'eventlogs.get': {
    summary: 'Describes one log.',
    payload: { name: 'System' },
    output: { log: LOG },
  },
  'eventlogs.query': {
    summary: 'Streams the entries of one page, newest first, as rows.',
    payload: { name: 'System', level: ['error', 'critical'], page: 1, limit: 100 },
    output: { scanned: 18_240, truncated: false, total: 1 },
  },
  'eventlogs.record': {
    summary: 'Returns one entry.',
    payload: { name: 'System', recordId: 18_240 },
    output: { entry: LOG_ENTRY },
  },
  'eventlogs.tail': {
    summary: 'Streams new entries as rows until the command is cancelled or its time is over.',
    payload: { name: 'System', text: 'password' },
    output: {},
  },
  'script.run': {
    summary: 'Runs a script. What it prints is streamed as rows while somebody watches.',
    payload: {
      language: 'bash',
      content: 'echo "$PARAM_greeting"',
      parameters: { greeting: 'hello' },
      timeoutSeconds: 60,
    },
    output: { exitCode: 0, stdout: 'hello\n', stderr: '', truncated: false },
  },
  'agent.set-auto-update': {
    summary: 'Sets whether the agent installs offered releases by itself.',
    payload: { enabled: false },
    output: {},
  },
  'agent.refresh-inventory': {
    summary: 'Sends the inventory of the machine now. The command ends when the server has it.',
    payload: {},
    output: {},
  },
  'agent.reboot': {
    summary: 'Restarts the machine, after the hub has the result.',
    payload: { delaySeconds: 60 },
    output: {},
  },
};

/** Each command type, shown as the payload of `command` and the output of `command:result`. */
export const COMMAND_TYPE_MESSAGES: SocketMessage[] = (Object.keys(EXAMPLES) as CommandType[]).map(
  (type) => ({
    name: type,
    direction: isDurable(type) ? `durable command, lane ${laneOf(type)}` : 'live query',
    summary: EXAMPLES[type].summary,
    payload: COMMANDS[type].payload,
    example: EXAMPLES[type].payload,
    ack: COMMANDS[type].output,
    ackExample: EXAMPLES[type].output,
  }),
);

import { z } from 'zod';
import { CommandSecrets } from './commands/index.ts';
import { HostName, MachineIdentity } from './machine-identity.ts';
import { MetricSamples } from './metric-history.ts';
import { ServiceReport } from './services.ts';
import { Instant, reportedLine, reportedName, reportedText, text, storableText } from './primitives.ts';
import type { TerminalControl } from './terminals.ts';
import { RELEASE_KEYS_MAX, ReleaseKey, UpdateStatus, Upgrade } from './releases.ts';

/** Socket messages between agents and the hub, in both directions (namespace `/agents`). */

const BootId = text(100).describe('A new value for each start of the agent program.');

export const AgentHandshake = z.object({
  token: text(200).describe('The token of the device, from its enrollment or from a rotation.'),
  protocol: z.number().int().describe('The version of the socket protocol that the agent speaks.'),
  agentVersion: reportedText(50),
  capabilities: z.array(text(64)).max(100).describe('The command types that the agent supports.'),
  bootId: BootId,
  ...MachineIdentity.shape,
});
export type AgentHandshake = z.infer<typeof AgentHandshake>;

export const RefusalCode = z.enum([
  'UNAUTHENTICATED',
  'DECOMMISSIONED',
  'TENANT_INACTIVE',
  'BUSY',
  'DRAINING',
  'PROTOCOL_UNSUPPORTED',
  'IDENTITY_CONFLICT',
]);
export type RefusalCode = z.infer<typeof RefusalCode>;

/** Why the hub refuses a connection: the `data` of Socket.IO's `connect_error`. */
export const Refusal = z.object({
  code: RefusalCode,
  retryAfterMs: z
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('How long to wait before the next attempt. Absent if waiting does not help.'),
});
export type Refusal = z.infer<typeof Refusal>;

const Percent = z.number().min(0).max(100);

export const Metrics = z.object({
  cpuPercent: Percent.describe('The average since the heartbeat before.'),
  ramPercent: Percent,
  diskPercent: Percent.describe('The part of the system disk that is in use.'),
});
export type Metrics = z.infer<typeof Metrics>;

/** About three centuries. The database stores the number in an integer column. */
const MAX_UPTIME_SECONDS = 10_000_000_000;

export const HEARTBEAT_ADDRESSES_MAX = 64;

export const Heartbeat = z.object({
  at: Instant.describe('The time by the clock of the device.'),
  agentVersion: reportedText(50),
  watchdogVersion: reportedText(50, 0).optional(),
  osVersion: reportedName(200, 0)
    .optional()
    .describe('The name of the system, such as "Debian GNU/Linux 12 (bookworm)".'),
  osBuild: reportedName(100, 0).optional(),
  uptimeSeconds: z.number().nonnegative().max(MAX_UPTIME_SECONDS).optional(),
  metrics: Metrics.optional(),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()]))
    .max(HEARTBEAT_ADDRESSES_MAX)
    .optional()
    .describe('The addresses of all external interfaces.'),
  ipAddressCount: z.number().int().optional().describe('The total number, if more exist than are listed.'),
  lastUser: reportedName(255, 0).optional().describe('The user who signed in last.'),
  pendingReboot: z.boolean().optional().describe('True if the system waits for a restart.'),
  autoUpdate: z.boolean().optional().describe('Whether the agent installs offered releases automatically.'),
  hostname: HostName.optional(),
  bootId: BootId.optional().describe('Over HTTP: as in the handshake of a socket.'),
});
export type Heartbeat = z.infer<typeof Heartbeat>;

export const AgentConfig = z.object({
  heartbeatSeconds: z.number().int().positive().describe('The interval between heartbeats.'),
  releaseKeys: z
    .array(ReleaseKey)
    .max(RELEASE_KEYS_MAX)
    .optional()
    .describe('The keys whose releases the agent installs, and keys that those have signed.'),
});
export type AgentConfig = z.infer<typeof AgentConfig>;

export const ErrorAck = z.object({
  ok: z.literal(false),
  error: z.object({
    code: z.string().describe('For programs.'),
    message: z.string().describe('For people.'),
    details: z.unknown().optional().describe('The invalid fields, as in the HTTP error body.'),
    retryAfterMs: z
      .number()
      .int()
      .nonnegative()
      .optional()
      .describe('Present if the refusal is temporary: how long to wait before sending the message again.'),
  }),
});
export type ErrorAck = z.infer<typeof ErrorAck>;
export const OkAck = z.object({ ok: z.literal(true) });
export type OkAck = z.infer<typeof OkAck>;

/** Text of any length, cut to its first characters. */
const beginning = (length: number) => z.string().overwrite((value) => storableText(value.slice(0, length)));

/** The agent's acknowledgement of a command: accepted, or the reason of a refusal. */
export const CommandReceipt = z.discriminatedUnion('ok', [
  OkAck,
  ErrorAck.extend({ error: z.object({ code: beginning(100), message: beginning(2000) }) }),
]);
export type CommandReceipt = z.infer<typeof CommandReceipt>;

export const HeartbeatAck = OkAck.extend({
  at: z.string().describe('The time of the server.'),
  nextInMs: z.number().int().positive().describe('When the next heartbeat is due.'),
  upgrade: z.array(Upgrade).describe('The releases that the device should install; usually none.'),
  isPending: z
    .literal(true)
    .optional()
    .describe('Present if the device waits for approval: until then it gets no work.'),
  config: AgentConfig.optional().describe('Present if it has changed since the last heartbeat.'),
});
export type HeartbeatAck = z.infer<typeof HeartbeatAck>;

const CommandId = text(64).describe('The id of the command.');
const Epoch = z.number().int().nonnegative();

export const CommandFrame = z.object({
  id: CommandId,
  type: z.string().describe('One of the command types below.'),
  payload: z.unknown().describe('As the command type defines it.'),
  epoch: Epoch.describe(
    'The number of the connection, to be copied into the result. A result with an older one is ignored.',
  ),
  deadline: Instant.describe('For live queries: when the server stops waiting.'),
  attempt: z.number().int().positive().describe('1 for the first delivery of this command.'),
  secrets: CommandSecrets.optional().describe(
    'The values behind the references in the payload. An agent never writes them to disk.',
  ),
});
export type CommandFrame = z.infer<typeof CommandFrame>;

/** The largest number that a bigint column of the database stores and JavaScript represents exactly. */
const Amount = z.number().nonnegative().max(Number.MAX_SAFE_INTEGER);
const Files = Amount.int();

/** The longest path that a device may report. */
export const PROGRESS_PATH_MAX = 4096;

export const CommandProgress = z.object({
  id: CommandId,
  seq: z.number().int().nonnegative().describe('Counts the progress messages of this command from 0.'),
  phase: reportedLine(50).describe('What the command does now, such as `running`.'),
  percent: Percent.optional(),
  done: Amount.optional().describe('How much is done, in the unit of the command.'),
  total: Amount.optional().describe('How much there is to do, in the same unit.'),
  rate: Amount.optional().describe('How much is done in a second.'),
  etaSeconds: Amount.optional().describe('The estimated time that remains.'),
  filesDone: Files.optional().describe('How many files are done, if the command works on files.'),
  filesTotal: Files.optional().describe('How many files there are.'),
  path: reportedLine(PROGRESS_PATH_MAX).optional().describe('The file that the command works on now.'),
  message: reportedText(1000, 0).optional().describe('For people.'),
});
export type CommandProgress = z.infer<typeof CommandProgress>;

/** The most rows in one frame, which keeps a frame well below the hub's message limit. */
export const ROWS_PER_FRAME = 100;

export const CommandRows = z.object({
  id: CommandId,
  seq: z.number().int().nonnegative().describe('Counts the frames of this command from 0.'),
  rows: z.array(z.unknown()).max(ROWS_PER_FRAME).describe('As the command type defines them.'),
  scanned: z.number().int().nonnegative().optional().describe('How many records the agent has read so far.'),
  done: z.boolean().describe('True in the last frame.'),
});
export type CommandRows = z.infer<typeof CommandRows>;

export const CommandResult = z.object({
  id: CommandId,
  epoch: Epoch.describe('The `epoch` of the newest frame of this command.'),
  status: z.enum(['succeeded', 'failed', 'cancelled']),
  output: z.unknown().optional().describe('As the command type defines it.'),
  error: z
    .object({ code: reportedText(100, 0), message: reportedText(2000, 0) })
    .optional()
    .describe('Present if the command has failed.'),
  startedAt: Instant,
  finishedAt: Instant,
});
export type CommandResult = z.infer<typeof CommandResult>;

export const CommandCancel = z.object({ id: CommandId });
export type CommandCancel = z.infer<typeof CommandCancel>;

export const HubReconnect = z.object({
  afterMs: z.number().int().nonnegative().describe('How long to wait before connecting again.'),
  reason: z.enum([
    'draining',
    'superseded',
    'decommissioned',
    'protocol_violation',
    'heartbeat_missed',
    'actor_failed',
  ]),
});
export type HubReconnect = z.infer<typeof HubReconnect>;

/** The largest message in bytes that the hub accepts from an agent; a larger one ends the connection. */
export const AGENT_MESSAGE_MAX_BYTES = 1_000_000;

export const AGENT_EVENTS = {
  heartbeat: Heartbeat,
  'command:progress': CommandProgress,
  'command:rows': CommandRows,
  'command:result': CommandResult,
  'update:status': UpdateStatus,
  'metrics:samples': MetricSamples,
  'services:report': ServiceReport,
} as const;
export type AgentEvent = keyof typeof AGENT_EVENTS;

type Ack<T> = (answer: T | ErrorAck) => void;

/** The events that an agent sends, as Socket.IO's typed event map. */
export interface AgentToHub {
  heartbeat: (message: Heartbeat, ack: Ack<HeartbeatAck>) => void;
  'command:progress': (message: CommandProgress, ack: Ack<OkAck>) => void;
  'command:rows': (message: CommandRows, ack: Ack<OkAck>) => void;
  'command:result': (message: CommandResult, ack: Ack<OkAck>) => void;
  'update:status': (message: UpdateStatus, ack: Ack<OkAck>) => void;
  'metrics:samples': (message: MetricSamples, ack: Ack<OkAck>) => void;
  'services:report': (message: ServiceReport, ack: Ack<OkAck>) => void;
}

/** The events that the hub sends to an agent. */
export interface HubToAgent {
  command: (frame: CommandFrame, ack: Ack<OkAck>) => void;
  'command:cancel': (message: CommandCancel, ack: Ack<OkAck>) => void;
  'terminal:control': (message: TerminalControl, ack: Ack<OkAck>) => void;
  'hub:reconnect': (message: HubReconnect, ack: Ack<OkAck>) => void;
}

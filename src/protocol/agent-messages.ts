import { z } from 'zod';
import { Instant, reportedText, text } from './primitives.ts';
import { storableText } from './storable.ts';

/** Socket messages between agent and hub, both ways (namespace `/agents`). */

export const AgentHandshake = z.object({
  token: text(200),
  protocol: z.number().int(),
  agentVersion: reportedText(50),
  capabilities: z.array(text(64)).max(100),
  bootId: text(100).describe('Changes with each start of the agent program.'),
});
export type AgentHandshake = z.infer<typeof AgentHandshake>;

export const RefusalCode = z.enum([
  'UNAUTHENTICATED',
  'DECOMMISSIONED',
  'TENANT_INACTIVE',
  'BUSY',
  'DRAINING',
  'PROTOCOL_UNSUPPORTED',
]);
export type RefusalCode = z.infer<typeof RefusalCode>;

/** What `connect_error` carries in `data`. */
export const Refusal = z.object({
  code: RefusalCode,
  retryAfterMs: z.number().int().nonnegative().optional(),
});
export type Refusal = z.infer<typeof Refusal>;

const Percent = z.number().min(0).max(100);

export const Metrics = z.object({ cpuPercent: Percent, ramPercent: Percent, diskPercent: Percent });
export type Metrics = z.infer<typeof Metrics>;

/** Three centuries: what is stored is a whole number, and must be one that a column holds. */
const MAX_UPTIME_SECONDS = 10_000_000_000;

export const Heartbeat = z.object({
  at: Instant,
  agentVersion: reportedText(50),
  watchdogVersion: reportedText(50, 0).optional(),
  osVersion: reportedText(200, 0).optional(),
  osBuild: reportedText(100, 0).optional(),
  uptimeSeconds: z.number().nonnegative().max(MAX_UPTIME_SECONDS).optional(),
  metrics: Metrics.optional(),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()]))
    .max(64)
    .optional(),
  lastUser: reportedText(255, 0).optional(),
  pendingReboot: z.boolean().optional(),
  autoUpdate: z.boolean().optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;

export const Upgrade = z.object({
  component: z.string(),
  version: z.string(),
  url: z.url(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  size: z.number().int().positive().optional(),
});

export const AgentConfig = z.object({ heartbeatSeconds: z.number().int().positive() });
export type AgentConfig = z.infer<typeof AgentConfig>;

export const ErrorAck = z.object({
  ok: z.literal(false),
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.unknown().optional().describe('What is wrong where, as over HTTP.'),
    retryAfterMs: z
      .number()
      .int()
      .nonnegative()
      .optional()
      .describe('Where it is refused for now only: when to send it again.'),
  }),
});
export type ErrorAck = z.infer<typeof ErrorAck>;
export const OkAck = z.object({ ok: z.literal(true) });
export type OkAck = z.infer<typeof OkAck>;

/** Of a text without a limit, as much as is kept. */
const beginning = (length: number) => z.string().overwrite((value) => storableText(value.slice(0, length)));

/** What an agent acknowledges a command with: it has it, or says why it does not take it. */
export const CommandReceipt = z.discriminatedUnion('ok', [
  OkAck,
  ErrorAck.extend({ error: z.object({ code: beginning(100), message: beginning(2000) }) }),
]);
export type CommandReceipt = z.infer<typeof CommandReceipt>;

export const HeartbeatAck = OkAck.extend({
  at: z.string(),
  nextInMs: z.number().int().positive(),
  upgrade: z.array(Upgrade),
  config: AgentConfig.optional().describe('Present where it changed since the last heartbeat.'),
});
export type HeartbeatAck = z.infer<typeof HeartbeatAck>;

const CommandId = text(64);
const Epoch = z.number().int().nonnegative();

export const CommandFrame = z.object({
  id: CommandId,
  type: z.string(),
  payload: z.unknown(),
  epoch: Epoch.describe('The claim under which it is sent; an answer under another one is ignored.'),
  deadline: Instant,
  attempt: z.number().int().positive(),
});
export type CommandFrame = z.infer<typeof CommandFrame>;

export const CommandProgress = z.object({
  id: CommandId,
  seq: z.number().int().nonnegative(),
  phase: reportedText(50, 0),
  percent: Percent.optional(),
  done: z.number().nonnegative().optional(),
  total: z.number().nonnegative().optional(),
  rate: z.number().nonnegative().optional(),
  etaSeconds: z.number().nonnegative().optional(),
  message: reportedText(1000, 0).optional(),
});
export type CommandProgress = z.infer<typeof CommandProgress>;

/** At most this many rows in one frame, so that a frame stays well under the hub's message limit. */
export const ROWS_PER_FRAME = 100;

export const CommandRows = z.object({
  id: CommandId,
  seq: z.number().int().nonnegative(),
  rows: z.array(z.unknown()).max(ROWS_PER_FRAME),
  scanned: z.number().int().nonnegative().optional(),
  done: z.boolean(),
});
export type CommandRows = z.infer<typeof CommandRows>;

export const CommandResult = z.object({
  id: CommandId,
  epoch: Epoch,
  status: z.enum(['succeeded', 'failed', 'cancelled']),
  output: z.unknown().optional(),
  error: z.object({ code: reportedText(100, 0), message: reportedText(2000, 0) }).optional(),
  startedAt: Instant,
  finishedAt: Instant,
});
export type CommandResult = z.infer<typeof CommandResult>;

export const CommandCancel = z.object({ id: CommandId });
export type CommandCancel = z.infer<typeof CommandCancel>;

export const UpdateStatus = z.object({
  component: reportedText(50, 0),
  targetVersion: reportedText(50, 0),
  phase: z.enum([
    'downloading',
    'verifying',
    'installing',
    'restarting',
    'completed',
    'failed',
    'rolled_back',
  ]),
  error: reportedText(2000, 0).optional(),
});
export type UpdateStatus = z.infer<typeof UpdateStatus>;

export const HubReconnect = z.object({
  afterMs: z.number().int().nonnegative(),
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

/** The largest message the hub takes from an agent, in bytes; a larger one ends the connection. */
export const AGENT_MESSAGE_MAX_BYTES = 1_000_000;

export const AGENT_EVENTS = {
  heartbeat: Heartbeat,
  'command:progress': CommandProgress,
  'command:rows': CommandRows,
  'command:result': CommandResult,
  'update:status': UpdateStatus,
} as const;
export type AgentEvent = keyof typeof AGENT_EVENTS;

type Ack<T> = (answer: T | ErrorAck) => void;

/** Events an agent sends, as Socket.IO's typed event map. */
export interface AgentToHub {
  heartbeat: (message: Heartbeat, ack: Ack<HeartbeatAck>) => void;
  'command:progress': (message: CommandProgress, ack: Ack<OkAck>) => void;
  'command:rows': (message: CommandRows, ack: Ack<OkAck>) => void;
  'command:result': (message: CommandResult, ack: Ack<OkAck>) => void;
  'update:status': (message: UpdateStatus, ack: Ack<OkAck>) => void;
}

/** Events the hub sends. */
export interface HubToAgent {
  command: (frame: CommandFrame, ack: Ack<OkAck>) => void;
  'command:cancel': (message: CommandCancel, ack: Ack<OkAck>) => void;
  'hub:reconnect': (message: HubReconnect, ack: Ack<OkAck>) => void;
}

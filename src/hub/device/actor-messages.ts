import {
  type CommandCancel,
  type CommandFrame,
  type CommandProgress,
  type CommandReceipt,
  type CommandResult,
  type CommandRows,
  type CommandType,
  type ErrorAck,
  type Heartbeat,
  type HeartbeatAck,
  type HubReconnect,
  type MetricSamples,
  type ServiceReport,
  type TerminalControl,
  type UpdateStatus,
  type UpgradableComponent,
  AgentErrorCode,
  SECRETS_CAPABILITY,
} from '../../protocol/index.ts';
import type { LiveQueryOutcome } from './live-query.ts';
import type { CommandEvent, DispatchedCommand } from '../ports.ts';

/** A connection that a newer one of the same device has replaced has no reason to hurry back. */
export const SUPERSEDED: HubReconnect = { afterMs: 60_000, reason: 'superseded' };

export const DECOMMISSIONED: HubReconnect = { afterMs: 3_600_000, reason: 'decommissioned' };

/** The connection of a device, as its actor uses it. */
export interface DeviceLink {
  /** @param receipt  called when the agent has accepted or refused the command */
  sendCommand(frame: CommandFrame, receipt?: (answer: CommandReceipt) => void): void;
  sendCancel(message: CommandCancel): void;
  /** @param onAcknowledged  called when the agent has the message */
  sendTerminalControl(message: TerminalControl, onAcknowledged: () => void): void;
  /** Ends the connection if the device leaves too much unread. */
  endIfUnread(): void;
  /**
   * Tells the agent when to reconnect and ends the connection.
   * @param onAcknowledged  called when the agent has acknowledged the notice
   */
  close(notice: HubReconnect | undefined, onAcknowledged?: () => void): void;
  /** Resolves to whether the agent's end answers within this time. */
  answers(withinMs: number): Promise<boolean>;
}

/** A live query on its way to a device, with the callbacks of its sender. */
export interface LiveQueryRequest {
  id: string;
  type: CommandType;
  payload: unknown;
  /** Milliseconds since the epoch. */
  deadline: number;
  maxRows: number;
  onRows(rows: unknown[]): void;
  settle(outcome: LiveQueryOutcome): void;
}

/** The messages in the mailbox of a device. Life cycle changes go first and are not listed here. */
export type ActorMessage =
  | { kind: 'heartbeat'; heartbeat: Heartbeat; at: number; ack: (answer: HeartbeatAck | ErrorAck) => void }
  | { kind: 'query'; query: LiveQueryRequest }
  | { kind: 'rows'; rows: CommandRows }
  | { kind: 'progress'; progress: CommandProgress }
  | { kind: 'result'; result: CommandResult; ack: (isStored: boolean) => void }
  | { kind: 'upgrade'; status: ReportedUpgrade; at: number; ack: (isStored: boolean) => void }
  | { kind: 'samples'; samples: MetricSamples['samples']; ack: (isStored: boolean) => void }
  | { kind: 'services'; report: ServiceReport; ack: (isStored: boolean) => void };

/** A phase of an upgrade, of a component that devices upgrade. */
export type ReportedUpgrade = UpdateStatus & { component: UpgradableComponent };

export const BUSY: ErrorAck = {
  ok: false,
  error: { code: 'DEVICE_BUSY', message: 'Too many messages at once. Send it again.' },
};

/** Settles a message that will not be handled, so that its sender does not wait for the deadline. */
export function rejectMessage(message: ActorMessage): void {
  if (message.kind === 'query') message.query.settle({ ok: false, reason: 'disconnected' });
  if (message.kind === 'heartbeat') message.ack(BUSY);
  const { kind } = message;
  if (kind === 'result' || kind === 'upgrade' || kind === 'samples' || kind === 'services') {
    message.ack(false);
  }
}

export interface ActorLimits {
  heartbeatMs: number;
  /** How long a device stays online after its connection closed, so that a short interruption is not shown. */
  graceMs: number;
  maxQueries: number;
}

/** What an agent reports about a command, as an event for the ledger. */

export function receiptEvent(
  { id, deviceId, attempt }: Pick<DispatchedCommand, 'id' | 'deviceId' | 'attempt'>,
  answer: CommandReceipt,
): CommandEvent {
  if (answer.ok) return { kind: 'accepted', id, deviceId };
  if (answer.error.code === AgentErrorCode.busy) return { kind: 'postponed', id, deviceId, attempt };
  return { kind: 'finished', id, deviceId, end: { status: 'failed', error: answer.error } };
}

/** The end of a command that the agent does not support, or `undefined` when it does. */
export function missingCapability(
  { id, deviceId, type, secrets }: DispatchedCommand,
  capabilities: readonly string[],
): CommandEvent | undefined {
  const needsSecrets = secrets !== undefined && !capabilities.includes(SECRETS_CAPABILITY);
  if (!needsSecrets && capabilities.includes(type)) return undefined;
  const error = {
    code: AgentErrorCode.capabilityMissing,
    message: `The agent on this device does not support ${needsSecrets ? 'secrets' : `"${type}"`}.`,
  };
  return { kind: 'finished', id, deviceId, end: { status: 'failed', error } };
}

export function progressEvent(
  deviceId: string,
  { id, seq: _seq, ...progress }: CommandProgress,
): CommandEvent {
  return { kind: 'running', id, deviceId, progress };
}

export function resultEvent(deviceId: string, { id, status, output, error }: CommandResult): CommandEvent {
  const end = {
    status: status === 'failed' && error?.code === AgentErrorCode.timedOut ? ('timed_out' as const) : status,
    ...(output === undefined ? {} : { output }),
    ...(error === undefined ? {} : { error }),
  };
  return { kind: 'finished', id, deviceId, end };
}

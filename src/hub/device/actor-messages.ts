import type {
  CommandCancel,
  CommandFrame,
  CommandProgress,
  CommandReceipt,
  CommandResult,
  CommandRows,
  CommandType,
  ErrorAck,
  Heartbeat,
  HeartbeatAck,
  HubReconnect,
  PresenceReason,
} from '../../protocol/index.ts';
import type { AskFailure, AskOutcome } from './live-query.ts';
import type { DispatchedCommand } from '../ports.ts';

/** What a device's actor is told, and the little it needs to do its work. */

/** The device's side of the connection, as the actor needs it. */
export interface DeviceLink {
  /** @param receipt  called when the agent has answered that it has the command, or will not take it */
  sendCommand(frame: CommandFrame, receipt?: (answer: CommandReceipt) => void): void;
  sendCancel(message: CommandCancel): void;
  /** Ends the connection where too much waits for the device that it does not read. */
  endIfUnread(): void;
  /** Says when to come back and ends the connection. */
  close(notice: HubReconnect | undefined): void;
}

export interface PendingAsk {
  id: string;
  type: CommandType;
  payload: unknown;
  deadline: number;
  maxRows: number;
  onRows(rows: unknown[]): void;
  settle(outcome: AskOutcome): void;
}

export type ActorMessage =
  | { kind: 'heartbeat'; heartbeat: Heartbeat; at: number; ack: (answer: HeartbeatAck | ErrorAck) => void }
  | { kind: 'ask'; ask: PendingAsk }
  | { kind: 'rows'; rows: CommandRows }
  | { kind: 'progress'; progress: CommandProgress }
  | { kind: 'result'; result: CommandResult; ack: (isKept: boolean) => void };

/** What a message hears whose turn does not come. */
export const BUSY: ErrorAck = {
  ok: false,
  error: { code: 'DEVICE_BUSY', message: 'Too many messages at once. Send it again.' },
};

/** What has its turn before anything else. */
export type Urgent =
  | { kind: 'cancel'; id: string; failure: AskFailure }
  | { kind: 'command'; command: DispatchedCommand }
  | { kind: 'receipt'; id: string; answer: CommandReceipt }
  | { kind: 'cancel_command'; id: string }
  | { kind: 'claimed'; epoch: number }
  | { kind: 'superseded'; epoch: number }
  | { kind: 'link_closed'; failure: AskFailure }
  | { kind: 'silent' }
  | { kind: 'grace_over' }
  | { kind: 'stop'; notice: HubReconnect | undefined; presence: PresenceReason | undefined };

export interface ActorLimits {
  heartbeatMs: number;
  /** How long a closed connection may take to come back before the device counts as offline. */
  graceMs: number;
  maxAsks: number;
}

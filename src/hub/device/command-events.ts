import {
  AgentErrorCode,
  type CommandProgress,
  type CommandReceipt,
  type CommandResult,
  SECRETS_CAPABILITY,
} from '../../protocol/index.ts';
import type { CommandEvent, DispatchedCommand } from '../ports/command-ledger.ts';

/** What an agent reports about a command, as an event for the ledger. */

export function receiptEvent(
  { id, deviceId }: Pick<DispatchedCommand, 'id' | 'deviceId'>,
  answer: CommandReceipt,
): CommandEvent {
  if (answer.ok) return { kind: 'accepted', id, deviceId };
  if (answer.error.code === AgentErrorCode.busy) return { kind: 'postponed', id, deviceId };
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

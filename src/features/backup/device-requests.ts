import { type DeviceHub, type LiveQuery, liveQueryError, remainingQueryMs } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import { withoutPage } from '../../platform/http/pagination.ts';
import type { AuditNote } from '../../platform/http/route.ts';
import {
  type CommandOutput,
  type CommandType,
  type DurableCommandType,
  ENGINE_MISSING_CAPABILITY,
  SECRETS_CAPABILITY,
} from '../../protocol/index.ts';
import { askableDevice, type CommandTarget, noteOfDevice, supportsCommand } from '../devices/index.ts';

// Entries of the audit trail about reading what devices list: databases, machines, shadow copies.

const READ = { action: 'data.access', resource: 'device' } as const;

interface Asked {
  ctx: Context;
  params: { deviceId: string };
  query: object | undefined;
}

/** Notes a read about the device that the path names. */
export const readOfDevice = (what: string) => ({
  ...READ,
  coversPages: true as const,
  note: (_answer: unknown, { ctx, params: { deviceId }, query = {} }: Asked): Promise<AuditNote> =>
    noteOfDevice(ctx, deviceId, { what, ...withoutPage(query) }),
});

/** Notes a read about many devices: an entry for each organization of which the page shows something. */
export const readOfDevices = (what: string) => ({
  ...READ,
  note: ({ data }: { data: readonly { orgId: string }[] }, { query }: { query: object }): AuditNote[] =>
    [...new Set(data.map(({ orgId }) => orgId))].map((orgId) => ({
      orgId,
      details: { what, ...withoutPage(query), shown: data.filter((each) => each.orgId === orgId).length },
    })),
});

/** The errors of a route that asks a device while the caller waits. */
export const LIVE_ERRORS = [
  'device_offline',
  'capability_missing',
  'device_busy',
  'device_error',
  'device_timeout',
  'unavailable',
] as const;

/** Asks a device while the caller waits, without a database connection. Throws the failure as the caller is shown it. */
export async function askDevice<T extends CommandType>(
  ctx: DetachedContext,
  deviceId: string,
  question: LiveQuery<T>,
  hub: DeviceHub,
): Promise<CommandOutput<T>> {
  await askableDevice(ctx, deviceId);
  const outcome = await hub.query(deviceId, { ...question, timeoutMs: remainingQueryMs(ctx.arrivedAt) });
  if (outcome.ok) return outcome.output;
  throw liveQueryError(outcome);
}

/**
 * Throws `capability_missing` if the agent of a device is too old for a command, and `engine_missing` if it has said
 * that restic is not on its machine.
 * @param what  what it cannot do, for the sentence
 */
export function assertCanWork(
  hub: Pick<DeviceHub, 'live'>,
  device: CommandTarget,
  { type, what }: { type: DurableCommandType; what: string },
): void {
  if (!supportsCommand(hub, device, type) || !supportsCommand(hub, device, SECRETS_CAPABILITY)) {
    throw new AppError('capability_missing', `The agent on this device cannot ${what}. Update it.`);
  }
  const capabilities = hub.live(device.id)?.capabilities ?? device.capabilities;
  if (capabilities.includes(ENGINE_MISSING_CAPABILITY)) {
    throw new AppError(
      'engine_missing',
      'restic is not installed on this device. Install it there; the agent finds it within a minute.',
    );
  }
}

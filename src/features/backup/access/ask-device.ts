import {
  type DeviceHub,
  type LiveQuery,
  liveQueryError,
  remainingQueryMs,
  withinQueryTimeout,
} from '../../../hub/index.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import type { CommandOutput, CommandType } from '../../../protocol/index.ts';
import { findAskableDevice } from '../../devices/index.ts';
import { assertManageable } from '../../organizations/index.ts';

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
  // One limit from the arrival of the request, which covers waiting for the database as well.
  await withinQueryTimeout(
    ctx.arrivedAt,
    ctx.withTenant(async (tenant) =>
      assertManageable(tenant, (await findAskableDevice(tenant, deviceId)).orgId),
    ),
  );
  const outcome = await hub.query(deviceId, { ...question, timeoutMs: remainingQueryMs(ctx.arrivedAt) });
  if (outcome.ok) return outcome.output;
  throw liveQueryError(outcome);
}

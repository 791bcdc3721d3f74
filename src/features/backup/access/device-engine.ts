import type { DeviceHub } from '../../../hub/index.ts';
import { AppError } from '../../../platform/errors.ts';
import {
  type DurableCommandType,
  ENGINE_MISSING_CAPABILITY,
  SECRETS_CAPABILITY,
} from '../../../protocol/index.ts';
import { type CommandTarget, supportsCommand } from '../../devices/index.ts';

/**
 * Throws `capability_missing` where the agent of a device is too old for a command, and `engine_missing` where it has said
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

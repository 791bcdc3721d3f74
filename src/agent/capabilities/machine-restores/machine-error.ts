import { AgentErrorCode } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { GuestFailure } from '../../os/qemu/guest-process.ts';
import { QmpLost, QmpRefusal } from '../../os/qemu/qmp-client.ts';
import { targetError } from '../../repository/local-engine.ts';

/** Error codes of restoring a machine, beside those of the engine and of restores. */
export type MachineCode =
  | 'HYPERVISOR_MISSING'
  | 'FIRMWARE_MISSING'
  | 'IMAGE_UNUSABLE'
  | 'MACHINE_MISSING'
  | 'HYPERVISOR_FAILED'
  | 'SNAPSHOT_UNREADABLE';

export const machineError = (code: MachineCode, message: string) => new AgentError(code, message);

export const FULL = 'The disk on which the machine is kept has no space left. Make room there and try again.';

/** The failure as a command reports it. */
export function asMachineError(error: unknown): unknown {
  if (error instanceof AgentError) return error;
  if (error instanceof GuestFailure || error instanceof QmpLost || error instanceof QmpRefusal) {
    return machineError('HYPERVISOR_FAILED', error.message);
  }
  if (hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')) return targetError('TARGET_FULL', FULL);
  return error;
}

export const hypervisorMissing = () =>
  machineError(
    'HYPERVISOR_MISSING',
    'qemu is not installed on this device. Install qemu-system-x86 and qemu-utils there.',
  );

export const machineMissing = () => machineError('MACHINE_MISSING', 'This device has no such machine.');

export const cancelled = () => new AgentError(AgentErrorCode.cancelled, 'The operation was cancelled.');

import type { FoundSnapshot } from '../../backup/index.ts';
import { machineOf, type RecoveryDevice } from './target.schema.ts';

/** Which snapshot a device of a plan is restored from, and which of its machines. */

export const wantedSnapshot = (entry: RecoveryDevice) => ({
  deviceId: entry.deviceId,
  kind: entry.restore.type === 'files' ? ('files' as const) : ('machine' as const),
  configId: entry.restore.configId ?? null,
  machine: machineOf(entry),
});

export interface MachineFault {
  code: 'MACHINE_REQUIRED' | 'MACHINE_AMBIGUOUS';
  /** What the field `machine` breaks. */
  rule: string;
}

/** Why it is not clear which of the guests in a snapshot is meant. @param guests  those that could be */
export function machineFault(
  guests: FoundSnapshot['machines'],
  wanted: string | null,
): MachineFault | undefined {
  if (guests === null || guests.length <= 1) return undefined;
  if (wanted !== null) {
    return { code: 'MACHINE_AMBIGUOUS', rule: 'is the name of several guests: give the id of one' };
  }
  const names = guests.map(({ name }) => name).join(', ');
  const rule = `is required: the newest snapshot has several guests: ${names}`.slice(0, 500);
  return { code: 'MACHINE_REQUIRED', rule };
}

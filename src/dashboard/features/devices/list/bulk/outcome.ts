import type { DeviceSummary } from '../../../../../protocol/index.ts';
import type { Answer } from '../../../../api/index.ts';
import type { Outcome } from '../../../scripts/index.ts';

export const namesOf = (devices: readonly DeviceSummary[]): ReadonlyMap<string, string> =>
  new Map(devices.map((device) => [device.id, device.displayName ?? device.hostname]));

/** Of an action that is done at once. */
export function outcomesOfChange(
  { results }: Answer<'POST /devices/bulk'>,
  names: ReadonlyMap<string, string>,
): Outcome[] {
  return results.map(({ deviceId, ok, message }) => ({
    deviceId,
    name: names.get(deviceId) ?? deviceId,
    commandId: undefined,
    refusal: ok ? undefined : (message ?? 'It was refused.'),
  }));
}

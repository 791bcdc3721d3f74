import type { DeviceStatus, DeviceSummary } from '../../../protocol/index.ts';

export interface DeviceChoice {
  q?: string | undefined;
  status?: readonly DeviceStatus[] | undefined;
  os?: readonly DeviceSummary['osType'][] | undefined;
}

/** Whether a device is of the choice: each word of `q` has to be part of one of its texts. */
export function deviceMatcher(
  { q, status, os }: DeviceChoice,
  textsOf: (device: DeviceSummary) => readonly string[],
): (device: DeviceSummary) => boolean {
  const words = (q ?? '').normalize('NFC').toLowerCase().split(/\s+/).filter(Boolean);
  const isChosen = <V>(chosen: readonly V[] | undefined, value: V) =>
    chosen === undefined || chosen.length === 0 || chosen.includes(value);
  return (device) => {
    if (!isChosen(status, device.status) || !isChosen(os, device.osType)) return false;
    if (words.length === 0) return true;
    const texts = textsOf(device).map((text) => text.toLowerCase());
    return words.every((word) => texts.some((text) => text.includes(word)));
  };
}

/** How many devices each value of a facet would show, with the other facets as chosen. */
export function facetCounts<V extends string>(
  devices: readonly DeviceSummary[],
  valueOf: (device: DeviceSummary) => V,
): Map<V, number> {
  const counts = new Map<V, number>();
  for (const device of devices) counts.set(valueOf(device), (counts.get(valueOf(device)) ?? 0) + 1);
  return counts;
}

/** A choice that can be dropped: its name, and how many devices there would be without it. */
export interface Drop {
  choice: keyof DeviceChoice;
  count: number;
}

/** The choice without which the most devices are shown; `undefined` if no single one is to blame. */
export function bestDrop(
  devices: readonly DeviceSummary[],
  choice: DeviceChoice,
  textsOf: (device: DeviceSummary) => readonly string[],
): Drop | undefined {
  const made = (['q', 'status', 'os'] as const).filter((each) => (choice[each]?.length ?? 0) > 0);
  const drops = made.map((each) => ({
    choice: each,
    count: devices.filter(deviceMatcher({ ...choice, [each]: undefined }, textsOf)).length,
  }));
  drops.sort((a, b) => b.count - a.count);
  return drops.find(({ count }) => count > 0);
}

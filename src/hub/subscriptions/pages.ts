import type { Caller } from '../../platform/context.ts';
import type { DevicesSubscribe, DeviceSummary } from '../../protocol/index.ts';
import type { DeviceStore, StoredDevice } from '../ports.ts';

/** The size of a page, and the most devices in the answer to a subscription. The rest follows in frames. */
export const PAGE_DEVICES = 1000;

interface DevicePage {
  devices: readonly DeviceSummary[];
  isLast: boolean;
}

/** Reads a list page by page: each call returns the next one. */
export type PageReader = () => Promise<DevicePage>;

/**
 * Reads the devices of a scope from the database.
 * @param latest  adds the changes since the device was written
 */
export function storedPages(
  store: Pick<DeviceStore, 'summaries'>,
  latest: (stored: StoredDevice) => DeviceSummary,
  { caller, filter }: { caller: Caller; filter: DevicesSubscribe },
): PageReader {
  let after: DeviceSummary | undefined;
  return async () => {
    const read = await store.summaries(caller, filter, { after, atMost: PAGE_DEVICES });
    after = read.at(-1)?.device;
    return { devices: read.map(latest).sort(byHostname), isLast: read.length < PAGE_DEVICES };
  };
}

/** Returns a complete list as one page. */
export function onePage(read: () => Promise<readonly DeviceSummary[]>): PageReader {
  return async () => ({ devices: await read(), isLast: true });
}

type Named = Pick<DeviceSummary, 'id' | 'hostname'>;

export function byHostname(a: Named, b: Named): number {
  const [left, right] = [a.hostname.toLowerCase(), b.hostname.toLowerCase()];
  return left < right ? -1 : left > right ? 1 : a.id < b.id ? -1 : 1;
}

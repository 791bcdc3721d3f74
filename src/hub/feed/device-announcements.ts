import type { ClusterEvents } from '../../platform/cluster/cluster-events.ts';
import { CHANGES_MISSED, DEVICES_MOVED, RECORDS_CHANGED } from './topics.ts';

/** The most devices that one message between nodes names. */
const DEVICES_PER_MESSAGE = 1000;

interface Parts {
  events: Pick<ClusterEvents, 'publish'>;
  /** Sends a device's owner the request to disconnect it, with retries. */
  disconnect: (deviceId: string) => void;
  /** Called with the devices of every announcement of this node. */
  onChanged: ((deviceIds: readonly string[]) => void) | undefined;
}

/** Announces changes of device records to all nodes. */
export class DeviceAnnouncements {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  changed(deviceIds: readonly string[]): void {
    this.#parts.onChanged?.(deviceIds);
    for (const some of inParts(deviceIds)) this.#parts.events.publish(RECORDS_CHANGED, { deviceIds: some });
  }

  moved(deviceIds: readonly string[]): void {
    const { events, disconnect, onChanged } = this.#parts;
    onChanged?.(deviceIds);
    for (const some of inParts(deviceIds)) {
      // Other changes are read again when the bus is back. A connection under the old identity must end in any case.
      events.publish(DEVICES_MOVED, { deviceIds: some }, () => {
        for (const deviceId of some) disconnect(deviceId);
      });
    }
  }

  /** This node or others may have missed changes. */
  missed(): void {
    this.#parts.events.publish(CHANGES_MISSED, {});
  }
}

function inParts(deviceIds: readonly string[]): string[][] {
  const parts: string[][] = [];
  for (let start = 0; start < deviceIds.length; start += DEVICES_PER_MESSAGE) {
    parts.push(deviceIds.slice(start, start + DEVICES_PER_MESSAGE));
  }
  return parts;
}

import { clock, type Timer } from '../../clock.ts';
import type { ClusterEvents } from '../../platform/cluster/cluster-events.ts';
import type { ClusterInterest, Tenant } from '../cluster/interest.ts';
import { MISSED_MS, RecentEntries } from '../cluster/recent-entries.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { AgentCredentials } from '../ports.ts';
import type { ChangedDevices } from './changed-devices.ts';
import {
  type ClusterFeed,
  CHANGES_MISSED,
  DEVICES_MOVED,
  FEED,
  RECORDS_CHANGED,
  type FeedEvent,
} from './cluster-feed.ts';

/** The most devices that one message between nodes names. */
const DEVICES_PER_MESSAGE = 1000;

interface AnnouncementParts {
  events: Pick<ClusterEvents, 'publish' | 'sendTo'>;
  /** What the other nodes show; left out when there are none. */
  interest: Pick<ClusterInterest, 'recipients' | 'onWidened'> | undefined;
  /** Sends a device's owner the request to disconnect it, with retries. */
  disconnect: (deviceId: string) => void;
  /** Called with the devices of every announcement of this node. */
  onChanged: ((deviceIds: readonly string[]) => void) | undefined;
}

/** Announces changes of device records to the other nodes. */
export class DeviceAnnouncements {
  readonly #parts: AnnouncementParts;
  /** Devices that were announced, or have entered or left, each with its tenants if they are known. */
  readonly #recent = new RecentEntries<Tenant | undefined>(MISSED_MS);

  constructor(parts: AnnouncementParts) {
    this.#parts = parts;
    const { interest, events } = parts;
    interest?.onWidened('devices', (nodeId, isNew) => {
      // What has no tenants was sent to every node that shows any devices.
      const missed = [...this.#recent.entries()].filter(([, tenant]) => isNew(tenant));
      for (const deviceIds of inParts(missed.map(([deviceId]) => deviceId))) {
        events.sendTo(new Set([nodeId]), RECORDS_CHANGED, { deviceIds });
      }
    });
  }

  changed(deviceIds: readonly string[]): void {
    const { events, interest, onChanged } = this.#parts;
    onChanged?.(deviceIds);
    for (const deviceId of deviceIds) this.note(deviceId);
    const recipients = interest?.recipients('devices', undefined);
    for (const some of inParts(deviceIds)) {
      events.publish(RECORDS_CHANGED, { deviceIds: some }, undefined, recipients);
    }
  }

  /** A device has entered or left, which is shown by `ClusterFeed`. A node that misses it reads its record. */
  note(deviceId: string, tenant?: Tenant): void {
    if (this.#parts.interest !== undefined) this.#recent.note(deviceId, (earlier) => tenant ?? earlier);
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

/** Nodes that come back together cause one resync. */
const RESYNC_MS = 1000;
/** By then the devices of a lost node are marked, and no change of before lies over what is read. */
const RESYNC_LATER_MS = 6000;

interface Parts {
  events: Pick<ClusterEvents, 'subscribe'>;
  registry: ActorRegistry;
  feed: ClusterFeed;
  changedDevices: ChangedDevices;
  live: LiveFilters | undefined;
  credentials: Pick<AgentCredentials, 'forget'>;
  /** Called once for all nodes that report missed changes. */
  onMissed: () => void;
}

/** Applies announced changes of devices to the connections and subscriptions of this node. */
export class DeviceEventHandlers {
  readonly #parts: Parts;
  #resyncTimer: Timer | undefined;
  #resyncLaterTimer: Timer | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { events, changedDevices } = parts;
    events.subscribe(FEED, (message) => this.#feed(message.events));
    events.subscribe(RECORDS_CHANGED, ({ deviceIds }) => changedDevices.changed(deviceIds));
    events.subscribe(DEVICES_MOVED, ({ deviceIds }) => this.#moved(deviceIds));
    events.subscribe(CHANGES_MISSED, () => this.#resyncSoon());
  }

  /** The device may have become visible to subscribers. */
  deviceEntered(deviceId: string): void {
    const { changedDevices, live } = this.#parts;
    changedDevices.recheckIfReading(deviceId);
    // Conditions may read fields that the summary does not contain.
    if (live !== undefined && live.size > 0) changedDevices.changed([deviceId]);
  }

  /**
   * Reads the lists again when only the records say what is true: a node that was lost may not have written what it has
   * shown last, and one that was away for a moment receives only then what was sent to it before.
   */
  resyncLater(): void {
    clock.clear(this.#resyncLaterTimer);
    this.#resyncLaterTimer = clock.setTimeout(() => this.#resyncSoon(), RESYNC_LATER_MS).unref();
  }

  close(): void {
    clock.clear(this.#resyncTimer);
    clock.clear(this.#resyncLaterTimer);
  }

  #feed(events: readonly FeedEvent[]): void {
    const { feed, changedDevices, registry } = this.#parts;
    feed.receive(events);
    for (const event of events) {
      if (event.type === 'left') changedDevices.recheckIfReading(event.deviceId);
      else if (event.type === 'entered') this.deviceEntered(event.device.id);
      // Another node reports a device as disconnected that is connected here.
      else if (event.patch.presence?.state === 'disconnected') registry.get(event.deviceId)?.republish();
    }
  }

  #moved(deviceIds: readonly string[]): void {
    const { credentials, registry, changedDevices } = this.#parts;
    credentials.forget(deviceIds);
    for (const id of deviceIds) registry.get(id)?.stop(undefined, 'socket_closed');
    changedDevices.changed(deviceIds);
  }

  #resyncSoon(): void {
    this.#resyncTimer ??= clock.setTimeout(() => {
      this.#resyncTimer = undefined;
      this.#parts.live?.resync();
      this.#parts.onMissed();
    }, RESYNC_MS);
  }
}

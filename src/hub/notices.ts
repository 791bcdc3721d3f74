import type { NodeBus } from '../platform/cluster/node-bus.ts';
import { DECOMMISSIONED } from './access/access-changes.ts';
import type { ActorRegistry } from './device/actor-registry.ts';
import type { ChangedDevices } from './feed/changed-devices.ts';
import type { ClusterFeed, FeedEvent } from './feed/cluster-feed.ts';
import type { CommandDesk } from './commands/command-dispatcher.ts';
import type { LiveFilters } from './filters/live-filters.ts';
import type { AgentCredentials } from './ports.ts';
import type { HubMessage, Notice } from './cluster/router.ts';

/** Nodes that come back together are one occasion to read everything anew. */
const RESYNC_MS = 1000;
/** What one message between nodes names at most. */
const DEVICES_AT_ONCE = 1000;

/** Hears what this node has told all others of devices, filters and the custom fields of organizations. */
export interface ToldOthers {
  devices(deviceIds: readonly string[]): void;
  filter(filterId: string): void;
  customField(orgId: string): void;
}

interface Parts {
  registry: ActorRegistry;
  desk: CommandDesk;
  feed: ClusterFeed;
  changedDevices: ChangedDevices;
  live: LiveFilters | undefined;
  credentials: Pick<AgentCredentials, 'forget'>;
  /** Left out where this node is alone. */
  bus: NodeBus<HubMessage> | undefined;
  /** Brings a notice to the node that holds the device, however late. */
  tellHolder: (notice: Extract<Notice, { deviceId: string }>) => void;
  /** Others could not be told. */
  onUntold: () => void;
  onTold: ToldOthers | undefined;
  /** Called once for all who say that something may have passed this node by. */
  onMissed: () => void;
}

/** What nodes tell each other without being asked, and what it means for those who are connected here. */
export class Notices {
  readonly #parts: Parts;
  #resyncTimer: NodeJS.Timeout | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  receive(notice: Notice): void {
    const { registry, desk, changedDevices, live, credentials } = this.#parts;
    switch (notice.kind) {
      case 'work':
        return desk.wake(notice.deviceId);
      case 'disconnect':
        registry.get(notice.deviceId)?.stop(undefined, 'socket_closed');
        return;
      case 'decommissioned':
        registry.get(notice.deviceId)?.stop(DECOMMISSIONED, 'socket_closed');
        return;
      case 'feed':
        return this.#feed(notice.events);
      case 'records_changed':
        return changedDevices.changed(notice.deviceIds);
      case 'filter_changed':
        return live?.filterChanged(notice.filterId);
      case 'custom_field_changed':
        return live?.customFieldChanged(notice.orgId, notice.key);
      case 'missed':
        return this.#resyncSoon();
      case 'moved':
        credentials.forget(notice.deviceIds);
        for (const id of notice.deviceIds) registry.get(id)?.stop(undefined, 'socket_closed');
        return changedDevices.changed(notice.deviceIds);
      default:
        return notice satisfies never;
    }
  }

  /** The device has come into somebody's sight. */
  cameIn(deviceId: string): void {
    const { changedDevices, live } = this.#parts;
    changedDevices.crossed(deviceId);
    // Conditions may ask for more than what was told.
    if (live !== undefined && live.size > 0) changedDevices.changed([deviceId]);
  }

  devicesChanged(deviceIds: readonly string[]): void {
    this.#tellOf('records_changed', deviceIds);
  }

  devicesMoved(deviceIds: readonly string[]): void {
    this.#tellOf('moved', deviceIds);
  }

  filterChanged(filterId: string): void {
    this.#tellAll({ kind: 'filter_changed', filterId });
    this.#parts.onTold?.filter(filterId);
  }

  customFieldChanged(orgId: string, key: string): void {
    this.#tellAll({ kind: 'custom_field_changed', orgId, key });
    this.#parts.onTold?.customField(orgId);
  }

  /** Something may have passed this node and the others by. */
  missed(): void {
    this.#tellAll({ kind: 'missed' });
  }

  close(): void {
    clearTimeout(this.#resyncTimer);
  }

  #feed(events: readonly FeedEvent[]): void {
    const { feed, changedDevices, registry } = this.#parts;
    feed.receive(events);
    for (const event of events) {
      if (event.type === 'left') changedDevices.crossed(event.deviceId);
      else if (event.type === 'entered') this.cameIn(event.device.id);
      // Somebody says of a device that it is gone, which is connected here.
      else if (event.patch.presence?.state === 'disconnected') registry.get(event.deviceId)?.tellAgain();
    }
  }

  /** Once for all who say that something was missed. */
  #resyncSoon(): void {
    this.#resyncTimer ??= setTimeout(() => {
      this.#resyncTimer = undefined;
      this.#parts.live?.resync();
      this.#parts.onMissed();
    }, RESYNC_MS);
  }

  #tellOf(kind: 'records_changed' | 'moved', deviceIds: readonly string[]): void {
    this.#parts.onTold?.devices(deviceIds);
    for (let start = 0; start < deviceIds.length; start += DEVICES_AT_ONCE) {
      const some = deviceIds.slice(start, start + DEVICES_AT_ONCE);
      this.#tellAll({ kind, deviceIds: some }, () => {
        // Whoever holds one of them must hear it, however late.
        if (kind === 'moved') {
          for (const deviceId of some) this.#parts.tellHolder({ kind: 'disconnect', deviceId });
        }
      });
    }
  }

  /** To all nodes, this one first. */
  #tellAll(notice: Notice, onUntold: () => void = () => {}): void {
    this.receive(notice);
    this.#parts.bus?.broadcast(notice).catch(() => {
      this.#parts.onUntold();
      onUntold();
    });
  }
}

import { clock, type Timer } from '../../clock.ts';
import type { DeviceSummary } from '../../protocol/index.ts';
import {
  DeviceChange,
  type DevicePatch,
  recordChange,
  subscriptionScope,
  type SubscriptionScope,
} from '../subscriptions/device-change.ts';
import { interestKeys, OwnInterest } from '../cluster/interest.ts';
import { RecentEntries } from '../cluster/recent-entries.ts';
import { applyLiveState } from '../filters/fleet-device.ts';
import type { FleetDevice } from '../ports.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import { FRAME_MS, type Subscription } from '../subscriptions/subscription.ts';

/** Longer than it takes to write presence. */
const KEPT_MS = 2000;

/**
 * The changes of devices within the last seconds. The owning node writes presence with a delay, so what is read from the
 * database may be older than what was shown.
 */
export class RecentChanges {
  readonly #entries = new RecentEntries<DeviceChange>(KEPT_MS);

  note(change: DeviceChange): void {
    const { deviceId, patch } = change;
    // A copy: the original keeps its serialized form as long as it lives.
    this.#entries.note(deviceId, (earlier) =>
      earlier === undefined ? new DeviceChange(deviceId, patch) : change.after(earlier),
    );
  }

  /** Whether there is a recent change of the device. */
  has(deviceId: string): boolean {
    return this.#entries.has(deviceId);
  }

  /** Applies the recent changes to a device that was read from the database. */
  over(device: DeviceSummary): DeviceSummary {
    const [earlier, later] = this.#entries.of(device.id);
    const before = earlier?.over(device) ?? device;
    return later?.over(before) ?? before;
  }
}

interface Member {
  sees: SubscriptionScope;
  endInterest: () => void;
}

/** The time over which subscriptions spread their reads after missed changes. */
const RESYNC_SPREAD_MS = 2000;

/** All device lists of this node. Changes are collected once and shown to all subscriptions together. */
export class DashboardFeed {
  /** The tenants whose devices the subscriptions show. */
  readonly interest: OwnInterest;
  readonly #subscriptions = new Map<Subscription, Member>();
  readonly #live: LiveFilters | undefined;
  readonly #changes = new Map<string, DeviceChange>();
  readonly #recent: RecentChanges;
  #timer: Timer | undefined;

  /** @param live  selects the devices of subscriptions that have conditions */
  constructor(live?: LiveFilters, recent = new RecentChanges(), interest = new OwnInterest()) {
    this.#live = live;
    this.#recent = recent;
    this.interest = interest;
  }

  get size(): number {
    return this.#subscriptions.size;
  }
  add(subscription: Subscription): void {
    const { caller, filter } = subscription;
    this.#subscriptions.set(subscription, {
      sees: subscriptionScope(caller, filter),
      endInterest: this.interest.add(interestKeys(caller, filter.orgId)),
    });
  }
  remove(subscription: Subscription): void {
    subscription.stop();
    this.#subscriptions.get(subscription)?.endInterest();
    this.#subscriptions.delete(subscription);
    this.#live?.leave(subscription);
  }
  changed(deviceId: string, patch: DevicePatch): void {
    const change = new DeviceChange(deviceId, patch);
    // Without subscriptions too: the next subscriber reads a database that is written with a delay.
    this.#recent.note(change);
    if (this.#subscriptions.size === 0) return;
    const earlier = this.#changes.get(deviceId);
    this.#changes.set(deviceId, earlier === undefined ? change : change.after(earlier));
    this.#timer ??= clock.setTimeout(() => this.#showChanges(), FRAME_MS);
  }
  /**
   * Notes that a connection began or ended of a device that no subscription shows, for subscribers that come before it is written
   * to the database. An open connection is known from its actor.
   */
  noteUnwatched(
    deviceId: string,
    { presence, lastSeenAt }: Pick<DevicePatch, 'presence' | 'lastSeenAt'>,
  ): void {
    if (presence === undefined || (presence.state === 'connected' && !this.#recent.has(deviceId))) return;
    this.#recent.note(
      new DeviceChange(deviceId, { presence, ...(lastSeenAt === undefined ? {} : { lastSeenAt }) }),
    );
  }
  /**
   * A device was created or is back in service: it is shown to subscribers in whose scope it is. Subscriptions with
   * conditions show it when its whole record has been read.
   */
  entered(device: DeviceSummary, partnerId: string): void {
    this.#applyCollected();
    for (const [subscription, sees] of this.#plain()) {
      if (sees({ ...device, partnerId })) subscription.entered(device);
    }
  }
  /**
   * A device was read again: for each subscriber it changes, enters or leaves.
   * @param record  the whole record, for subscriptions with conditions
   */
  refreshed(read: DeviceSummary, partnerId: string, record?: FleetDevice): void {
    this.#applyCollected();
    const device = this.#recent.over(read);
    const change = recordChange(device);
    for (const [subscription, sees] of this.#plain()) {
      if (sees({ ...device, partnerId })) subscription.refreshed(device, change);
      else subscription.left(device.id);
    }
    if (record === undefined) return;
    applyLiveState(record, device);
    this.#live?.refreshed(record, change);
  }
  left(deviceId: string): void {
    this.#applyCollected();
    this.#live?.left(deviceId);
    for (const subscription of this.#subscriptions.keys()) subscription.left(deviceId);
  }
  /**
   * Reads again what subscriptions show, spread over time, because this node may have missed changes. Subscriptions with
   * conditions are read again by the live filters.
   */
  resync(): void {
    for (const [subscription] of this.#plain()) {
      clock.setTimeout(() => subscription.reread(), Math.random() * RESYNC_SPREAD_MS).unref();
    }
  }
  /** Applies the recent changes to a device that was read from the database. */
  latest(device: DeviceSummary): DeviceSummary {
    return this.#recent.over(device);
  }
  /** Shows now what waits for the next frame. */
  settle(): void {
    this.#showChanges();
    for (const subscription of this.#subscriptions.keys()) subscription.settle();
  }
  close(): void {
    clock.clear(this.#timer);
  }

  /** Subscriptions without conditions. */
  *#plain(): Iterable<[Subscription, SubscriptionScope]> {
    for (const [subscription, { sees }] of this.#subscriptions) {
      if (this.#live?.has(subscription) !== true) yield [subscription, sees];
    }
  }

  #showChanges(): void {
    const changes = this.#take();
    if (this.#live !== undefined) for (const change of changes) this.#live.deviceChanged(change);
    for (const subscription of this.#subscriptions.keys()) subscription.changedTogether(changes);
  }

  /** Applies the collected changes before another event, so that the order is kept. */
  #applyCollected(): void {
    for (const change of this.#take()) {
      this.#live?.deviceChanged(change);
      for (const subscription of this.#subscriptions.keys()) subscription.changed(change);
    }
  }

  #take(): DeviceChange[] {
    clock.clear(this.#timer);
    this.#timer = undefined;
    const changes = [...this.#changes.values()];
    this.#changes.clear();
    return changes;
  }
}

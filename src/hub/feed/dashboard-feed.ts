import type { DeviceSummary } from '../../protocol/index.ts';
import { DeviceChange, type DevicePatch, recordChange } from '../subscriptions/device-change.ts';
import { type FleetDevice, setLive } from '../filters/fleet-device.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import { RecentChanges } from './recent-changes.ts';
import { sight, type Sight } from '../subscriptions/subscription-scope.ts';
import { FRAME_MS, type Subscription } from '../subscriptions/subscription.ts';

/** Each subscription reads all that it shows, from the database: they must not all do so at once. */
const RESYNC_SPREAD_MS = 2000;

/** All subscriptions of this node. What changes is gathered once for all of them, and shown to all at once. */
export class DashboardFeed {
  readonly #subscriptions = new Map<Subscription, Sight>();
  readonly #live: LiveFilters | undefined;
  readonly #changes = new Map<string, DeviceChange>();
  readonly #recent = new RecentChanges();
  #timer: NodeJS.Timeout | undefined;

  /** @param live  what those subscriptions need that follow conditions */
  constructor(live?: LiveFilters) {
    this.#live = live;
  }

  get size(): number {
    return this.#subscriptions.size;
  }
  add(subscription: Subscription): void {
    this.#subscriptions.set(subscription, sight(subscription.caller, subscription.filter));
  }
  remove(subscription: Subscription): void {
    subscription.stop();
    this.#subscriptions.delete(subscription);
    this.#live?.leave(subscription);
  }
  changed(deviceId: string, patch: DevicePatch): void {
    const change = new DeviceChange(deviceId, patch);
    // Also while nobody watches: whoever comes next reads what is written behind.
    this.#recent.note(change);
    if (this.#subscriptions.size === 0) return;
    const earlier = this.#changes.get(deviceId);
    this.#changes.set(deviceId, earlier === undefined ? change : change.after(earlier));
    this.#timer ??= setTimeout(() => this.#tell(), FRAME_MS);
  }
  /**
   * A connection that has begun or ended while nobody watches on any node. The database is written later: whoever comes
   * before that sees it here. One that is open is known without.
   */
  unwatched(deviceId: string, { presence, lastSeenAt }: Pick<DevicePatch, 'presence' | 'lastSeenAt'>): void {
    if (presence === undefined || (presence.state === 'connected' && !this.#recent.has(deviceId))) return;
    this.#recent.note(
      new DeviceChange(deviceId, { presence, ...(lastSeenAt === undefined ? {} : { lastSeenAt }) }),
    );
  }
  /**
   * A device that came into being, or came back: shown to those whose scope and filter hold it. Who follows conditions
   * sees it when the rest of it has been read.
   */
  entered(device: DeviceSummary, partnerId: string): void {
    this.#settle();
    for (const [subscription, sees] of this.#plain()) {
      if (sees({ ...device, partnerId })) subscription.entered(device);
    }
  }
  /**
   * A device as it was read anew: it may change, enter or leave, for each who watches as they may see it.
   * @param record  all of it, for those who follow conditions
   */
  refreshed(read: DeviceSummary, partnerId: string, record?: FleetDevice): void {
    this.#settle();
    const device = this.#recent.over(read);
    const change = recordChange(device);
    for (const [subscription, sees] of this.#plain()) {
      if (sees({ ...device, partnerId })) subscription.refreshed(device, change);
      else subscription.left(device.id);
    }
    if (record === undefined) return;
    setLive(record, device);
    this.#live?.refreshed(record, change);
  }
  left(deviceId: string): void {
    this.#settle();
    this.#live?.left(deviceId);
    for (const subscription of this.#subscriptions.keys()) subscription.left(deviceId);
  }
  /**
   * Changes may have passed this node by: whatever is shown is read anew, spread over time. Those who follow conditions
   * are read by the live filters.
   */
  resync(): void {
    for (const [subscription] of this.#plain()) {
      setTimeout(() => subscription.reread(), Math.random() * RESYNC_SPREAD_MS).unref();
    }
  }
  /** The device as it was read, with what was told since. */
  latest(device: DeviceSummary): DeviceSummary {
    return this.#recent.over(device);
  }
  close(): void {
    clearTimeout(this.#timer);
  }

  /** Those that follow no conditions. */
  *#plain(): Iterable<[Subscription, Sight]> {
    for (const entry of this.#subscriptions) if (this.#live?.has(entry[0]) !== true) yield entry;
  }

  #tell(): void {
    const changes = this.#take();
    if (this.#live !== undefined) for (const change of changes) this.#live.told(change);
    for (const subscription of this.#subscriptions.keys()) subscription.changedTogether(changes);
  }

  /** What has changed so far comes before what is about to happen, and is shown with it. */
  #settle(): void {
    for (const change of this.#take()) {
      this.#live?.told(change);
      for (const subscription of this.#subscriptions.keys()) subscription.changed(change);
    }
  }

  #take(): DeviceChange[] {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const changes = [...this.#changes.values()];
    this.#changes.clear();
    return changes;
  }
}

import type { Caller } from '../platform/context.ts';
import type { DevicesSubscribe, DeviceSummary } from '../protocol/index.ts';
import { DeviceChange, type DevicePatch, type ShownPatch } from './device-change.ts';
import { RecentChanges } from './recent-changes.ts';
import { FRAME_MS, type Subscription } from './subscription.ts';

/** All subscriptions of this node. What changes is gathered once for all of them, and shown to all at once. */
export class DashboardFeed {
  readonly #subscriptions = new Set<Subscription>();
  readonly #changes = new Map<string, DeviceChange>();
  readonly #recent = new RecentChanges();
  #timer: NodeJS.Timeout | undefined;

  get size(): number {
    return this.#subscriptions.size;
  }
  add(subscription: Subscription): void {
    this.#subscriptions.add(subscription);
  }
  remove(subscription: Subscription): void {
    subscription.stop();
    this.#subscriptions.delete(subscription);
  }
  changed(deviceId: string, patch: DevicePatch): void {
    if (this.#subscriptions.size === 0) return;
    const change = new DeviceChange(deviceId, patch);
    this.#recent.note(change);
    const earlier = this.#changes.get(deviceId);
    this.#changes.set(deviceId, earlier === undefined ? change : change.after(earlier));
    this.#timer ??= setTimeout(() => this.#tell(), FRAME_MS);
  }
  /** A device that came into being, or came back: shown to those whose scope and filter hold it. */
  entered(device: DeviceSummary, partnerId: string): void {
    this.#settle();
    for (const subscription of this.#subscriptions) {
      if (sees(subscription.caller, device.orgId, partnerId) && matches(subscription.filter, device)) {
        subscription.entered(device);
      }
    }
  }
  /** A device as it was read anew: it may change, enter or leave, for each who watches as they may see it. */
  refreshed(read: DeviceSummary, partnerId: string): void {
    this.#settle();
    const device = this.#recent.over(read);
    const change = new DeviceChange(device.id, recordOf(device));
    for (const subscription of this.#subscriptions) {
      if (sees(subscription.caller, device.orgId, partnerId) && matches(subscription.filter, device)) {
        subscription.refreshed(device, change);
      } else subscription.left(device.id);
    }
  }
  left(deviceId: string): void {
    this.#settle();
    for (const subscription of this.#subscriptions) subscription.left(deviceId);
  }
  close(): void {
    clearTimeout(this.#timer);
  }

  #tell(): void {
    const changes = this.#take();
    for (const subscription of this.#subscriptions) subscription.changedTogether(changes);
  }

  /** What has changed so far comes before what is about to happen, and is shown with it. */
  #settle(): void {
    for (const change of this.#take()) {
      for (const subscription of this.#subscriptions) subscription.changed(change);
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

/** Without what the live side tells by itself, and has told already. */
function recordOf({
  id: _id,
  presence: _presence,
  lastSeenAt: _lastSeenAt,
  metrics: _metrics,
  ...record
}: DeviceSummary): ShownPatch {
  return record;
}

function sees(caller: Caller, orgId: string, partnerId: string): boolean {
  if (caller.scope === 'system') return true;
  if (caller.orgAccess === 'all') return caller.partnerId === partnerId;
  return caller.orgIds.includes(orgId);
}

function matches(filter: DevicesSubscribe, device: DeviceSummary): boolean {
  return (
    (filter.orgId ?? device.orgId) === device.orgId && (filter.siteId ?? device.siteId) === device.siteId
  );
}

import type { Caller } from '../platform/context.ts';
import { newId } from '../platform/ids.ts';
import type {
  DeviceCounts,
  DevicesDelta,
  DeviceStatus,
  DevicesSubscribe,
  DeviceSummary,
  Metrics,
  Presence,
} from '../protocol/index.ts';

/** Four frames a second at most; the latest state of a device wins within one. */
export const FRAME_MS = 250;

export interface DevicePatch {
  presence?: Presence;
  /** Whether it sends heartbeats without a connection; not shown as such. */
  isReporting?: boolean | undefined;
  lastSeenAt?: string | null;
  metrics?: Metrics | null;
  status?: DeviceStatus;
  agentVersion?: string;
}

/** One subscriber's view: what it was shown, and what has changed since the last frame. */
export class Subscription {
  readonly id = newId();
  readonly caller: Caller;
  readonly filter: DevicesSubscribe;
  readonly #send: (delta: DevicesDelta) => void;
  readonly #statuses = new Map<string, DeviceStatus>();
  readonly #changed = new Map<string, DevicePatch>();
  readonly #entered = new Map<string, DeviceSummary>();
  readonly #left = new Set<string>();
  #seq = 0;
  #timer: NodeJS.Timeout | undefined;
  #started = false;

  constructor(options: { caller: Caller; filter: DevicesSubscribe; send: (delta: DevicesDelta) => void }) {
    this.caller = options.caller;
    this.filter = options.filter;
    this.#send = options.send;
  }

  /** Shows the first state. Changes that came while it was read follow in the first frame. */
  start(devices: readonly DeviceSummary[]): { seq: number; counts: DeviceCounts } {
    for (const device of devices) this.#statuses.set(device.id, device.status);
    for (const id of this.#changed.keys()) {
      if (!this.#statuses.has(id) && !this.#entered.has(id)) this.#changed.delete(id);
    }
    for (const id of this.#left) if (!this.#statuses.has(id)) this.#left.delete(id);
    this.#started = true;
    if (this.#changed.size + this.#entered.size + this.#left.size > 0) this.#schedule();
    return { seq: this.#seq, counts: this.counts() };
  }

  changed(deviceId: string, patch: DevicePatch): void {
    if (this.#left.has(deviceId)) return;
    if (this.#started && !this.#statuses.has(deviceId) && !this.#entered.has(deviceId)) return;
    const waiting = this.#changed.get(deviceId);
    const merged: DevicePatch = { ...waiting, ...patch };
    // What was decided within this frame is older than the presence that follows it.
    if (waiting?.status !== undefined) merged.status = statusAfter(waiting.status, patch, patch.status);
    this.#changed.set(deviceId, merged);
    this.#schedule();
  }

  entered(device: DeviceSummary): void {
    this.#left.delete(device.id);
    this.#changed.delete(device.id);
    this.#entered.set(device.id, device);
    this.#schedule();
  }

  left(deviceId: string): void {
    // Until the first state is there, it may hold any device.
    const known = !this.#started || this.#statuses.has(deviceId);
    this.#entered.delete(deviceId);
    this.#changed.delete(deviceId);
    if (!known) return;
    this.#left.add(deviceId);
    this.#schedule();
  }

  counts(): DeviceCounts {
    const byStatus: Partial<Record<DeviceStatus, number>> = {};
    for (const status of this.#statuses.values()) byStatus[status] = (byStatus[status] ?? 0) + 1;
    return { total: this.#statuses.size, byStatus };
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#started = false;
  }

  #schedule(): void {
    if (!this.#started) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#frame();
    }, FRAME_MS);
  }

  #frame(): void {
    const entered: DeviceSummary[] = [];
    for (const device of this.#entered.values()) {
      const { status, isReporting, ...patch } = this.#changed.get(device.id) ?? {};
      const after = statusAfter(device.status, { ...patch, isReporting }, status);
      const summary = { ...device, ...patch, status: after };
      this.#changed.delete(device.id);
      this.#statuses.set(device.id, summary.status);
      entered.push(summary);
    }
    const changed: DevicesDelta['changed'] = [];
    for (const [id, { status, isReporting, ...patch }] of this.#changed) {
      const before = this.#statuses.get(id);
      if (before === undefined) continue;
      const after = statusAfter(before, { ...patch, isReporting }, status);
      this.#statuses.set(id, after);
      changed.push(after === before ? { id, ...patch } : { id, ...patch, status: after });
    }
    const left = [...this.#left];
    for (const id of left) this.#statuses.delete(id);
    this.#entered.clear();
    this.#changed.clear();
    this.#left.clear();
    if (entered.length + changed.length + left.length === 0) return;
    this.#seq += 1;
    this.#send({ subscriptionId: this.id, seq: this.#seq, changed, entered, left, counts: this.counts() });
  }
}

/**
 * A connection, or reports without one, decide between online and offline, and over no other status: maintenance
 * outlives a reconnect.
 */
export function statusAfter(before: DeviceStatus, patch: DevicePatch, decided?: DeviceStatus): DeviceStatus {
  if (decided !== undefined) return decided;
  if (before !== 'online' && before !== 'offline') return before;
  if (patch.presence === undefined && patch.isReporting === undefined) return before;
  return patch.presence?.state === 'connected' || patch.isReporting === true ? 'online' : 'offline';
}

/** All subscriptions of this node. */
export class DashboardFeed {
  readonly #subscriptions = new Set<Subscription>();

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
    for (const subscription of this.#subscriptions) subscription.changed(deviceId, patch);
  }
  /** A device that came into being, or came back: shown to those whose scope and filter hold it. */
  entered(device: DeviceSummary, partnerId: string): void {
    for (const subscription of this.#subscriptions) {
      if (sees(subscription.caller, device.orgId, partnerId) && matches(subscription.filter, device)) {
        subscription.entered(device);
      }
    }
  }
  left(deviceId: string): void {
    for (const subscription of this.#subscriptions) subscription.left(deviceId);
  }
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

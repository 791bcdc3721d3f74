import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';
import { DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';
import { clock, type Timer } from '../../clock.ts';
import { type DevicePatch, patchAfter } from '../subscriptions/device-change.ts';
import type { DashboardFeed } from './dashboard-feed.ts';

const WirePatch = z
  .object({
    presence: Presence,
    lastSeenAt: z.string().nullable(),
    metrics: Metrics.nullable(),
    status: DeviceStatus,
    agentVersion: z.string(),
    isReporting: z.boolean(),
  })
  .partial();

/** A change of a device as nodes send it to each other for their dashboards. */
export const FeedEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('changed'),
    deviceId: z.string(),
    /** The epoch of the claim under which the presence in the patch was reported. */
    epoch: z.number().optional(),
    patch: WirePatch,
  }),
  z.object({
    type: z.literal('entered'),
    // Servers of the former release send no maintenance.
    device: DeviceSummary.extend({ maintenance: DeviceSummary.shape.maintenance.default(null) }),
    partnerId: z.string(),
  }),
  z.object({ type: z.literal('left'), deviceId: z.string() }),
]);
export type FeedEvent = z.infer<typeof FeedEvent>;

/** Live changes of devices. Each node sends its own to the others. */
export const FEED = topic('feed', z.object({ events: z.array(FeedEvent) }));

const DeviceIds = z.object({ deviceIds: z.array(z.string()) });

/** Stored records of devices have changed, or the devices are back in service. */
export const RECORDS_CHANGED = topic('records_changed', DeviceIds);

/** Devices have moved to another organization or site, so their agents must reconnect under the new identity. */
export const DEVICES_MOVED = topic('moved', DeviceIds);

/** Nodes may have missed changes and must read again what they show. */
export const CHANGES_MISSED = topic('missed', z.object({}));

const BATCH_MS = 50;
/** The most devices whose latest epoch is remembered. Changes of other devices are accepted without a check. */
const EPOCHS_MAX = 200_000;
const EVENTS_PER_MESSAGE = 1000;

/** Applies changes to the dashboards of this node, and sends those of this node to all others in batches. */
export class ClusterFeed {
  readonly #feed: DashboardFeed;
  readonly #broadcast: ((events: FeedEvent[]) => void) | undefined;
  /** The latest state of each device that only changed. Other events keep their order. */
  #changed = new Map<string, { patch: DevicePatch; epoch: number | undefined }>();
  /** By device, the epoch of the newest claim from which presence was received. */
  readonly #epochs = new Map<string, number>();
  #events: FeedEvent[] = [];
  #timer: Timer | undefined;

  /** @param broadcast  left out when there are no other nodes */
  constructor(feed: DashboardFeed, broadcast: ((events: FeedEvent[]) => void) | undefined) {
    this.#feed = feed;
    this.#broadcast = broadcast;
  }

  /** Whether a change reaches anyone. When it does not, it need not be put together. */
  get hasAudience(): boolean {
    return this.#broadcast !== undefined || this.#feed.size > 0;
  }

  /** @param epoch  of the claim under which presence was reported; an older one than is known is ignored */
  changed(deviceId: string, patch: DevicePatch, epoch?: number): void {
    if (this.#isOutdated(deviceId, epoch)) return;
    this.#feed.changed(deviceId, patch);
    if (this.#broadcast === undefined) return;
    const earlier = this.#changed.get(deviceId);
    this.#changed.set(
      deviceId,
      earlier === undefined
        ? { patch, epoch }
        : { patch: patchAfter(earlier.patch, patch), epoch: epoch ?? earlier.epoch },
    );
    this.#schedule();
  }

  entered(device: DeviceSummary, partnerId: string): void {
    this.#feed.entered(device, partnerId);
    if (this.#broadcast === undefined) return;
    this.#queueChanges();
    this.#events.push({ type: 'entered', device, partnerId });
    this.#schedule();
  }

  left(deviceId: string): void {
    this.#feed.left(deviceId);
    if (this.#broadcast === undefined) return;
    this.#queueChanges();
    this.#events.push({ type: 'left', deviceId });
    this.#schedule();
  }

  /** Applies the changes of another node. */
  receive(events: readonly FeedEvent[]): void {
    for (const event of events) {
      if (event.type === 'entered') this.#feed.entered(event.device, event.partnerId);
      else if (event.type === 'left') this.#feed.left(event.deviceId);
      else if (!this.#isOutdated(event.deviceId, event.epoch)) {
        this.#feed.changed(event.deviceId, withoutUndefined(event.patch));
      }
    }
  }

  /** Sends now what waits for the next message. */
  settle(): void {
    clock.clear(this.#timer);
    this.#flush();
  }

  close(): void {
    clock.clear(this.#timer);
    this.#flush();
  }

  /** Messages about a device that changes nodes can arrive in any order. The epochs say which one is newer. */
  #isOutdated(deviceId: string, epoch: number | undefined): boolean {
    if (epoch === undefined || this.#broadcast === undefined) return false;
    const known = this.#epochs.get(deviceId);
    if (known === epoch) return false;
    if (known !== undefined && known > epoch) return true;
    this.#epochs.set(deviceId, epoch);
    if (this.#epochs.size > EPOCHS_MAX) {
      const [oldest] = this.#epochs.keys();
      if (oldest !== undefined) this.#epochs.delete(oldest);
    }
    return false;
  }

  #queueChanges(): void {
    for (const [deviceId, { patch, epoch }] of this.#changed) {
      this.#events.push({ type: 'changed', deviceId, patch, ...(epoch === undefined ? {} : { epoch }) });
    }
    this.#changed = new Map();
  }

  #schedule(): void {
    this.#timer ??= clock.setTimeout(() => this.#flush(), BATCH_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    this.#queueChanges();
    while (this.#events.length > 0) this.#broadcast?.(this.#events.splice(0, EVENTS_PER_MESSAGE));
  }
}

type Patch = Extract<FeedEvent, { type: 'changed' }>['patch'];

/** Fields that were left out must be missing: an undefined field would overwrite an earlier one. */
function withoutUndefined(patch: Patch): DevicePatch {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
}

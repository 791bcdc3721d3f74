import { z } from 'zod';
import { DeviceStatus, DeviceSummary, Metrics, Presence } from '../../protocol/index.ts';
import type { DashboardFeed } from './dashboard-feed.ts';
import { type DevicePatch, patchAfter } from '../subscriptions/device-change.ts';

const Patch = z
  .object({
    presence: Presence,
    lastSeenAt: z.string().nullable(),
    metrics: Metrics.nullable(),
    status: DeviceStatus,
    agentVersion: z.string(),
    isReporting: z.boolean(),
  })
  .partial();

/** What dashboards are told of devices, as it goes from node to node. */
export const FeedEvent = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('changed'),
    deviceId: z.string(),
    /** Of the claim under which the presence in the patch holds. */
    epoch: z.number().optional(),
    patch: Patch,
  }),
  z.object({ type: z.literal('entered'), device: DeviceSummary, partnerId: z.string() }),
  z.object({ type: z.literal('left'), deviceId: z.string() }),
]);
export type FeedEvent = z.infer<typeof FeedEvent>;

const GATHER_MS = 50;
/** So many devices are known by the epoch of what was told of them last; of others, what comes is believed. */
const EPOCHS_MAX = 200_000;
const EVENTS_AT_ONCE = 1000;

/** The feed of this node and of all others: what happens here is told to both, to the others in batches. */
export class ClusterFeed {
  readonly #feed: DashboardFeed;
  readonly #tellOthers: ((events: FeedEvent[]) => void) | undefined;
  /** Latest of each device that only changed; the rest in the order it happened. */
  #changed = new Map<string, { patch: DevicePatch; epoch: number | undefined }>();
  /** Under which claim each device was told of last, by whichever node. */
  readonly #epochs = new Map<string, number>();
  #events: FeedEvent[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** @param tellOthers  left out where there are none */
  constructor(feed: DashboardFeed, tellOthers: ((events: FeedEvent[]) => void) | undefined) {
    this.#feed = feed;
    this.#tellOthers = tellOthers;
  }

  /** Whether anybody hears of a change: what is to be told need not be put together for nobody. */
  get isHeard(): boolean {
    return this.#tellOthers !== undefined || this.#feed.size > 0;
  }

  /** @param epoch  of the claim under which a presence holds; one under an earlier claim than is known tells nothing */
  changed(deviceId: string, patch: DevicePatch, epoch?: number): void {
    if (this.#isOutdated(deviceId, epoch)) return;
    this.#feed.changed(deviceId, patch);
    if (this.#tellOthers === undefined) return;
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
    if (this.#tellOthers === undefined) return;
    this.#settleChanges();
    this.#events.push({ type: 'entered', device, partnerId });
    this.#schedule();
  }

  left(deviceId: string): void {
    this.#feed.left(deviceId);
    if (this.#tellOthers === undefined) return;
    this.#settleChanges();
    this.#events.push({ type: 'left', deviceId });
    this.#schedule();
  }

  /** What another node has told. */
  receive(events: readonly FeedEvent[]): void {
    for (const event of events) {
      if (event.type === 'entered') this.#feed.entered(event.device, event.partnerId);
      else if (event.type === 'left') this.#feed.left(event.deviceId);
      else if (!this.#isOutdated(event.deviceId, event.epoch)) {
        this.#feed.changed(event.deviceId, sent(event.patch));
      }
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#flush();
  }

  /** Nodes tell of a device that wanders between them in no certain order: its epochs say which word is the newer. */
  #isOutdated(deviceId: string, epoch: number | undefined): boolean {
    if (epoch === undefined || this.#tellOthers === undefined) return false;
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

  #settleChanges(): void {
    for (const [deviceId, { patch, epoch }] of this.#changed) {
      this.#events.push({ type: 'changed', deviceId, patch, ...(epoch === undefined ? {} : { epoch }) });
    }
    this.#changed = new Map();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    this.#settleChanges();
    while (this.#events.length > 0) this.#tellOthers?.(this.#events.splice(0, EVENTS_AT_ONCE));
  }
}

/** Without the fields that were left out: to be undefined would mean something else. */
function sent(patch: z.infer<typeof Patch>): DevicePatch {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
}

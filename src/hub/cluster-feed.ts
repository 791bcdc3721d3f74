import { z } from 'zod';
import { DeviceStatus, DeviceSummary, Metrics, Presence } from '../protocol/index.ts';
import type { DashboardFeed } from './dashboard-feed.ts';
import type { DevicePatch } from './device-change.ts';

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
  z.object({ type: z.literal('changed'), deviceId: z.string(), patch: Patch }),
  z.object({ type: z.literal('entered'), device: DeviceSummary, partnerId: z.string() }),
  z.object({ type: z.literal('left'), deviceId: z.string() }),
]);
export type FeedEvent = z.infer<typeof FeedEvent>;

const GATHER_MS = 50;
const EVENTS_AT_ONCE = 1000;

/** The feed of this node and of all others: what happens here is told to both, to the others in batches. */
export class ClusterFeed {
  readonly #feed: DashboardFeed;
  readonly #tellOthers: ((events: FeedEvent[]) => void) | undefined;
  /** Latest of each device that only changed; the rest in the order it happened. */
  #changed = new Map<string, DevicePatch>();
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

  changed(deviceId: string, patch: DevicePatch): void {
    this.#feed.changed(deviceId, patch);
    if (this.#tellOthers === undefined) return;
    this.#changed.set(deviceId, { ...this.#changed.get(deviceId), ...patch });
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
      else this.#feed.changed(event.deviceId, sent(event.patch));
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#flush();
  }

  #settleChanges(): void {
    for (const [deviceId, patch] of this.#changed) this.#events.push({ type: 'changed', deviceId, patch });
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

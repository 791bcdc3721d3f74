import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type {
  DevicesDelta,
  DevicesEnded,
  DevicesSnapshot,
  DevicesSubscribe,
  DeviceSummary,
} from '../../protocol/index.ts';
import type { DashboardFeed } from '../feed/dashboard-feed.ts';
import { errorAck } from './dashboard-inbox.ts';
import type { HeldPlaces } from './dashboard-limits.ts';
import { deltaEvent } from '../subscriptions/delta-event.ts';
import { type PageReader, storedPages } from '../subscriptions/device-pages.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { PacedClient } from '../sockets/flow-controlled-client.ts';
import type { DeviceStore } from '../ports.ts';
import { Subscription } from '../subscriptions/subscription.ts';

const MAX_SUBSCRIPTIONS = 20;

export interface SubscriptionParts {
  store: DeviceStore;
  feed: DashboardFeed;
  /** The device as it was read, with what is known live laid over it. */
  latest: (device: DeviceSummary) => DeviceSummary;
  live: LiveFilters | undefined;
  places: { subscriptions: HeldPlaces };
}

/** What a connection offers for live device lists. */
export interface SubscriptionClient {
  pace: PacedClient;
  ended(message: DevicesEnded): void;
}

/** The live device lists of one dashboard connection. They end with it. */
export class DashboardSubscriptions {
  readonly #open = new Map<string, { subscription: Subscription; end: () => void }>();
  readonly #client: SubscriptionClient;
  readonly #parts: SubscriptionParts;

  constructor(client: SubscriptionClient, parts: SubscriptionParts) {
    this.#client = client;
    this.#parts = parts;
  }

  /** Called on a connection that is open: what is awaited in here may outlive it, and is then of no effect. */
  async subscribe(caller: Caller, filter: DevicesSubscribe): Promise<DevicesSnapshot> {
    const { feed, latest, store, places } = this.#parts;
    if (this.#open.size >= MAX_SUBSCRIPTIONS) {
      throw new AppError('rate_limited', `At most ${MAX_SUBSCRIPTIONS} subscriptions a connection.`);
    }
    const isFiltered = filter.filterId !== undefined || filter.conditions !== undefined;
    const live = isFiltered ? liveFilters(this.#parts.live) : undefined;
    const { pace } = this.#client;
    const send = (delta: DevicesDelta) => pace.emitJson(deltaEvent(delta));
    const pages = (): PageReader =>
      live?.pages(subscription) ?? storedPages(store, latest, { caller, filter });
    const onUnreadable = (error: unknown) => {
      // Its organization, for one, is gone: the client hears so, and its other lists go on.
      if (error instanceof AppError && error.code !== 'unavailable') over(error);
      else pace.cutOff();
    };
    const giveBack = places.subscriptions.take(caller.userId);
    const subscription = new Subscription({ caller, filter, send, pace, pages, onUnreadable });
    let reason: AppError | undefined;
    let isShown = false;
    const end = () => {
      giveBack();
      this.#open.delete(subscription.id);
      feed.remove(subscription);
    };
    const over = (why: AppError) => {
      reason = why;
      end();
      if (!isShown) return;
      const { code, message } = errorAck(why).error;
      this.#client.ended({ subscriptionId: subscription.id, code, message });
    };
    // Before the first state is read, so that nothing falls between the two.
    this.#open.set(subscription.id, { subscription, end });
    feed.add(subscription);
    try {
      await live?.follow(subscription, over);
      const first = await subscription.begin();
      if (reason !== undefined) throw reason;
      isShown = true;
      return { ok: true, subscriptionId: subscription.id, ...first };
    } catch (error) {
      end();
      throw error;
    }
  }

  unsubscribe(subscriptionId: string): void {
    this.#open.get(subscriptionId)?.end();
  }

  /** What the caller sees may be something else now, though by the same rights. */
  reread(): void {
    for (const { subscription } of this.#open.values()) subscription.reread();
  }

  close(): void {
    for (const { end } of this.#open.values()) end();
  }
}

function liveFilters(live: LiveFilters | undefined): LiveFilters {
  if (live === undefined) throw new AppError('unavailable', 'Filters are not followed here.');
  return live;
}

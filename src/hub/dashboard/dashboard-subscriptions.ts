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
import type { Quota } from './dashboard-limits.ts';
import { deltaEvent } from '../subscriptions/delta-event.ts';
import { type PageReader, storedPages } from '../subscriptions/device-pages.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { FlowControlledClient } from '../sockets/flow-controlled-client.ts';
import type { DeviceStore } from '../ports/device-store.ts';
import { Subscription } from '../subscriptions/subscription.ts';

const MAX_SUBSCRIPTIONS = 20;

export interface SubscriptionParts {
  store: DeviceStore;
  feed: DashboardFeed;
  /** Adds the live state to a device that was read from the database. */
  latest: (device: DeviceSummary) => DeviceSummary;
  live: LiveFilters | undefined;
  quotas: { subscriptions: Quota };
}

/** The connection of a client, as its live device lists use it. */
export interface SubscriptionClient {
  client: FlowControlledClient;
  ended(message: DevicesEnded): void;
}

/** The live device lists of one dashboard connection. They end with it. */
export class DashboardSubscriptions {
  readonly #open = new Map<string, { subscription: Subscription; end: () => void }>();
  readonly #connection: SubscriptionClient;
  readonly #parts: SubscriptionParts;

  constructor(connection: SubscriptionClient, parts: SubscriptionParts) {
    this.#connection = connection;
    this.#parts = parts;
  }

  /** The connection must be open. If it ends while this waits, the result has no effect. */
  async subscribe(caller: Caller, filter: DevicesSubscribe): Promise<DevicesSnapshot> {
    const { feed, latest, store, quotas } = this.#parts;
    if (this.#open.size >= MAX_SUBSCRIPTIONS) {
      throw new AppError('rate_limited', `A connection may have at most ${MAX_SUBSCRIPTIONS} subscriptions.`);
    }
    const isFiltered = filter.filterId !== undefined || filter.conditions !== undefined;
    const live = isFiltered ? liveFilters(this.#parts.live) : undefined;
    const { client } = this.#connection;
    const send = (delta: DevicesDelta) => client.emitJson(deltaEvent(delta));
    const pages = (): PageReader =>
      live?.pages(subscription) ?? storedPages(store, latest, { caller, filter });
    const onUnreadable = (error: unknown) => {
      // For example, its organization was deleted: the client is notified, and its other lists continue.
      if (error instanceof AppError && error.code !== 'unavailable') endWith(error);
      else client.cutOff();
    };
    const release = quotas.subscriptions.acquire(caller.userId);
    const subscription = new Subscription({ caller, filter, send, flow: client, pages, onUnreadable });
    let reason: AppError | undefined;
    let isShown = false;
    const end = () => {
      release();
      this.#open.delete(subscription.id);
      feed.remove(subscription);
    };
    const endWith = (why: AppError) => {
      reason = why;
      end();
      if (!isShown) return;
      const { code, message } = errorAck(why).error;
      this.#connection.ended({ subscriptionId: subscription.id, code, message });
    };
    // This comes before the first read, so that no change is lost between the two.
    this.#open.set(subscription.id, { subscription, end });
    feed.add(subscription);
    try {
      await live?.follow(subscription, endWith);
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

  /** The caller may see other devices now, with the same rights. */
  reread(): void {
    for (const { subscription } of this.#open.values()) subscription.reread();
  }

  close(): void {
    for (const { end } of this.#open.values()) end();
  }
}

function liveFilters(live: LiveFilters | undefined): LiveFilters {
  if (live === undefined) throw new AppError('unavailable', 'Live filters are not available on this server.');
  return live;
}

import { clock } from '../../../clock.ts';
import { isDatabaseAway } from '../../../platform/db/database-errors.ts';
import type { BackgroundPart } from '../../../platform/close-stack.ts';
import type { Webhook } from '../subscriptions/webhook.model.ts';
import { fanOut } from './fan-out.ts';
import { claimWebhooks, releaseWebhook } from './lease.ts';
import { type ServeParts, serveWebhook } from './serve-webhook.ts';

export interface DispatcherTiming {
  /** How often the database is asked for work. */
  everyMs: number;
  /** Another server sends for a server that has died after this time. Longer than a turn takes. */
  leaseMs: number;
  /** A server that stops gives requests so long to end. */
  graceMs: number;
}

const TIMING: DispatcherTiming = { everyMs: 1000, leaseMs: 90_000, graceMs: 2000 };

interface Round {
  /** More events wait to be divided among the webhooks. */
  hasMore: boolean;
  /** The number of webhooks that it has begun to serve. */
  begun: number;
}

/** Webhooks that this process serves at a time. Most of that time is waiting for receivers. */
const PLACES = 32;

/**
 * Sends webhook events. Every server has one; they share the work by leases on webhooks, so that each receiver hears from
 * one server at a time. It is no background job, because a receiver that hangs would hold a place there that other work
 * needs, and because a row for each event of a busy fleet is more than that queue is made for.
 */
export class WebhookDispatcher implements BackgroundPart {
  readonly #parts: Omit<ServeParts, 'signal'>;
  readonly #timing: DispatcherTiming;
  readonly #abort = new AbortController();
  readonly #serving = new Set<Promise<void>>();
  #looping: Promise<void> = Promise.resolve();
  /** The last round, which the next one follows. */
  #looked: Promise<unknown> = Promise.resolve();
  #wake = () => {};
  #isAwake = false;
  #isClosing = false;
  #isFailing = false;

  constructor(parts: Omit<ServeParts, 'signal'>, timing: Partial<DispatcherTiming> = {}) {
    this.#parts = parts;
    this.#timing = { ...TIMING, ...timing };
  }

  start(): void {
    this.#looping = this.#loop();
  }

  /** Sends what is due now, and what that adds, until nothing is due. Rejects while the database is unavailable. */
  async settle(): Promise<void> {
    for (;;) {
      const { hasMore, begun } = await this.#look();
      await Promise.all(this.#serving);
      if (!hasMore && begun === 0) return;
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#wake();
    await this.#looping;
    const ended = Promise.all(this.#serving);
    const late = new AbortController();
    await Promise.race([
      ended,
      clock.sleep(this.#timing.graceMs, { signal: late.signal }).catch(() => undefined),
    ]);
    late.abort();
    // What was not recorded is sent again, with the same id.
    this.#abort.abort(new Error('The server is stopping.'));
    await ended;
  }

  async #loop(): Promise<void> {
    while (!this.#isClosing) {
      this.#isAwake = false;
      try {
        const { hasMore } = await this.#look();
        this.#isFailing = false;
        if (hasMore) continue;
      } catch (error) {
        // Once for each time that the database is away.
        if (!this.#isFailing) this.#parts.log.warn({ err: error }, 'webhooks.round_failed');
        this.#isFailing = true;
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (this.#isClosing || (this.#isAwake && !this.#isFailing)) return;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimeout(() => resolve(), this.#timing.everyMs).unref();
      this.#wake = () => {
        clock.clear(timer);
        resolve();
      };
    });
  }

  /** One round at a time. */
  #look(): Promise<Round> {
    const looking = this.#looked.then(() => this.#round());
    this.#looked = looking.catch(() => undefined);
    return looking;
  }

  async #round(): Promise<Round> {
    const { db } = this.#parts;
    const hasMore = await fanOut(db);
    const free = PLACES - this.#serving.size;
    if (free === 0) return { hasMore: false, begun: 0 };
    const claimed = await claimWebhooks(db, { free, leaseMs: this.#timing.leaseMs });
    for (const webhook of claimed) {
      const serving = this.#serve(webhook).finally(() => {
        this.#serving.delete(serving);
        this.#isAwake = true;
        this.#wake();
      });
      this.#serving.add(serving);
    }
    return { hasMore, begun: claimed.length };
  }

  /** Never fails: one webhook that cannot be served leaves the others alone. */
  async #serve(webhook: Webhook): Promise<void> {
    const { log, db } = this.#parts;
    const about = { webhookId: webhook.id, partnerId: webhook.partnerId };
    try {
      // A signal of its own, because each request listens to it.
      await serveWebhook({ ...this.#parts, signal: AbortSignal.any([this.#abort.signal]) }, webhook);
    } catch (error) {
      if (!this.#abort.signal.aborted) {
        const isAway = isDatabaseAway(error);
        log[isAway ? 'warn' : 'error']({ ...about, err: error }, 'webhooks.not_served');
        // Its lease ends by itself, so that what fails each time is tried at that pace.
        return;
      }
    }
    await releaseWebhook(db, webhook).catch((error: unknown) =>
      log.warn({ ...about, err: error }, 'webhooks.not_released'),
    );
  }
}

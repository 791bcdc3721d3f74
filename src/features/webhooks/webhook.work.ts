import { clock } from '../../clock.ts';
import type { BackgroundPart } from '../../platform/close-stack.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import { ComingPartitions } from '../../platform/db/partitions.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { eventType } from './event-catalogue.ts';
import { type Message, post, FAILURES_BEFORE_PAUSE, type Outcome } from './post.ts';
import { signingSecrets } from './signing.ts';
import type { Webhook } from './webhook.model.ts';
import { addComingWebhookPartitions } from './webhook-partition.queries.ts';
import {
  fanOut,
  claimWebhooks,
  releaseWebhook,
  type Attempted,
  recordWebhookAttempt,
  recordDeliveryAttempt,
  failDelivery,
  type Due,
  dueDeliveries,
} from './webhook.queries.ts';
import { disableWebhook } from './webhook.service.ts';

export interface DispatcherTiming {
  /** How often the dispatcher looks for work in the database. */
  everyMs: number;
  /** After this time another server takes over from one that has died. Must be longer than a turn takes. */
  leaseMs: number;
  /** How long a server that stops waits for its requests to end. */
  graceMs: number;
}

const TIMING: DispatcherTiming = { everyMs: 1000, leaseMs: 90_000, graceMs: 2000 };

interface Round {
  /** More events wait to be divided among the webhooks. */
  hasMore: boolean;
  /** The number of webhooks that it has begun to serve. */
  begun: number;
}

/** The number of webhooks that this process serves at a time. Most of that time is waiting for receivers. */
const CONCURRENT_WEBHOOKS = 32;

/**
 * Sends webhook events. Every server has one; they share the work by leases on webhooks, so that each receiver hears from
 * one server at a time. It is no background job, because a receiver that hangs would occupy a worker that other jobs
 * need, and because a row for each event of a busy fleet is more than that queue is made for.
 */
export class WebhookDispatcher implements BackgroundPart {
  readonly #parts: Omit<ServeParts, 'signal'>;
  readonly #timing: DispatcherTiming;
  readonly #partitions: ComingPartitions;
  readonly #abort = new AbortController();
  readonly #serving = new Set<Promise<void>>();
  #looping: Promise<void> = Promise.resolve();
  /** The next round begins when this one has ended. */
  #lastRound: Promise<unknown> = Promise.resolve();
  #wake = () => {};
  #isAwake = false;
  #isClosing = false;
  #isFailing = false;

  constructor(parts: Omit<ServeParts, 'signal'>, timing: Partial<DispatcherTiming> = {}) {
    this.#parts = parts;
    this.#timing = { ...TIMING, ...timing };
    const { db, log } = parts;
    this.#partitions = new ComingPartitions({
      add: () => addComingWebhookPartitions(db),
      log,
      failure: 'webhooks.partitions_not_added',
      // Each attempt may hold up who reads the log.
      retryMs: 60_000,
    });
  }

  start(): void {
    this.#looping = this.#loop();
  }

  /** Sends what is due now, and what that adds, until nothing is due. Rejects while the database is unavailable. */
  async settle(): Promise<void> {
    for (;;) {
      const { hasMore, begun } = await this.#nextRound();
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
    // Unrecorded deliveries are sent again, with the same id.
    this.#abort.abort(new Error('The server is stopping.'));
    await ended;
  }

  async #loop(): Promise<void> {
    while (!this.#isClosing) {
      this.#isAwake = false;
      try {
        const { hasMore } = await this.#nextRound();
        this.#isFailing = false;
        if (hasMore) continue;
      } catch (error) {
        // Logged once per outage of the database.
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
  #nextRound(): Promise<Round> {
    const looking = this.#lastRound.then(() => this.#round());
    this.#lastRound = looking.catch(() => undefined);
    return looking;
  }

  async #round(): Promise<Round> {
    const { db } = this.#parts;
    await this.#partitions.ensure();
    const hasMore = await fanOut(db);
    const free = CONCURRENT_WEBHOOKS - this.#serving.size;
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

  /** Never rejects: a webhook that cannot be served does not affect the others. */
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
        // The webhook is tried again when its lease has expired, so that one that always fails is not tried all the time.
        return;
      }
    }
    await releaseWebhook(db, webhook).catch((error: unknown) =>
      log.warn({ ...about, err: error }, 'webhooks.not_released'),
    );
  }
}

interface ServeParts {
  db: Db;
  outbound: Pick<GuardedFetch, 'open'>;
  secrets: Encryptor;
  log: Logger;
  onAttempt: (outcome: 'delivered' | 'failed') => void;
  signal: AbortSignal;
}

/** The number of requests to one receiver at a time. */
const AT_ONCE = 4;
/** After this many deliveries, or this time, other webhooks have their turn. Both end well within a lease. */
const TURN = 40;
const TURN_MS = 20_000;

/** Sends what is due of a webhook, for one turn. */
async function serveWebhook(parts: ServeParts, webhook: Webhook): Promise<void> {
  const until = clock.monotonic() + TURN_MS;
  let { failures } = webhook;
  const isOver = () => parts.signal.aborted || clock.monotonic() > until;
  // A receiver that has failed before gets one request at a time, until one succeeds.
  const waiting = await dueDeliveries(parts.db, webhook.id, failures >= FAILURES_BEFORE_PAUSE ? 1 : TURN);
  const sender = async () => {
    for (let due = waiting.shift(); due !== undefined; due = waiting.shift()) {
      failures = await deliver(parts, webhook, due, failures);
      if (failures >= FAILURES_BEFORE_PAUSE || isOver()) waiting.length = 0;
    }
  };
  const senders = await Promise.allSettled(Array.from({ length: failures === 0 ? AT_ONCE : 1 }, sender));
  const broken = senders.find((one) => one.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}

/** @returns  how many attempts have failed in a row */
async function deliver(parts: ServeParts, webhook: Webhook, due: Due, failures: number): Promise<number> {
  const { db, outbound, secrets, signal, onAttempt } = parts;
  const message = messageOf(due);
  if (typeof message === 'string') {
    await failDelivery(db, due, message);
    return failures;
  }
  const destination = { url: webhook.url, secrets: signingSecrets(secrets, webhook, clock.date()) };
  const outcome = await post(outbound, destination, message, signal);
  onAttempt(outcome.ok ? 'delivered' : 'failed');
  return recordAttempt(
    db,
    {
      deliveryId: due.id,
      eventId: due.eventId,
      webhookId: webhook.id,
      attempts: due.attempts,
      eventOrgId: due.orgId,
    },
    outcome,
  );
}

/** The message to send, or the reason why it cannot be sent. */
function messageOf({ eventId: id, type, createdAt, orgId, data, isGone }: Due): Message | string {
  if (isGone) return 'The organization was deleted.';
  const parsed = eventType(type)?.data.safeParse(data);
  if (parsed?.success !== true) return 'This release of the server cannot read the event.';
  return { id, type, createdAt: createdAt.toISOString(), orgId, data: parsed.data };
}

const GONE = 410;

/**
 * Records an attempt, and what follows from it for the webhook.
 * @returns  how many attempts have failed in a row
 */
async function recordAttempt(db: Db, attempted: Attempted, outcome: Outcome): Promise<number> {
  return withSystem(db, 'record an attempt to deliver a webhook event', async (tx) => {
    const failures = await recordWebhookAttempt(tx, attempted, outcome);
    await recordDeliveryAttempt(tx, attempted, outcome);
    if (outcome.ok) return 0;
    if (outcome.responseStatus === GONE) {
      await disableWebhook(tx, attempted.webhookId, 'gone', attempted.eventOrgId);
    } else if (failures.isForDays) {
      await disableWebhook(tx, attempted.webhookId, 'failing', attempted.eventOrgId);
    }
    return failures.count;
  });
}

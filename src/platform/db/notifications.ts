import pg from 'pg';
import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import { connectToPrimary } from './primary.ts';

/** The connection is asked this often whether it still leads to the database. */
const PROBE_MS = 1000;
/** A probe without an answer for so long means that the connection is dead. */
const SILENCE_MS = 3000;
/** The last state counts for so long after the last probe that was answered. */
const IN_TOUCH_MS = 4000;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 2000;

interface Listener {
  channel: string;
  /** Called with the payloads that came together, in their order. */
  onNotifications: (payloads: readonly string[]) => void;
  /** Called when the connection is back: notifications may have been missed. */
  onReturn: () => void;
}

interface Options {
  url: string;
  log: Logger;
}

/**
 * Listens to what transactions announce with `pg_notify`, which Postgres delivers after their commit. All channels share
 * one connection, which is their own, comes back by itself, and says whether it can be relied on at this moment.
 */
export class DatabaseNotifications {
  readonly #options: Options;
  #client: pg.Client | undefined;
  #connecting: Promise<void> | undefined;
  #timer: Timer | undefined;
  #silence: Timer | undefined;
  readonly #listeners = new Map<string, Listener & { payloads: string[] }>();
  /** When the last probe was sent that was answered. */
  #inTouchAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #hasBeenLost = false;
  #isClosed = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Whether every notification of more than some seconds ago has surely come. */
  get isInTouch(): boolean {
    return clock.monotonic() - this.#inTouchAt < IN_TOUCH_MS;
  }

  /** Before the start. */
  listen(listener: Listener): void {
    if (this.#connecting !== undefined || this.#client !== undefined) {
      throw new Error(`${listener.channel} is added after the connection was opened`);
    }
    this.#listeners.set(listener.channel, { ...listener, payloads: [] });
  }

  /** Resolves after the first attempt to connect, be it successful or not. */
  start(): Promise<void> {
    return this.#connect();
  }

  /** Resolves when everything is handed on that was committed before. */
  async settle(): Promise<void> {
    // Postgres sends the notifications that are pending for a connection before it answers the next query on it.
    await this.#client?.query('select 1').catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    clock.clear(this.#silence);
    await this.#connecting;
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  #connect(): Promise<void> {
    this.#connecting = this.#open().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #open(): Promise<void> {
    const { url, log } = this.#options;
    let client: pg.Client | undefined;
    try {
      client = await this.#connectTo(url);
      const askedAt = clock.monotonic();
      const channels = [...this.#listeners.keys()].map((channel) => pg.escapeIdentifier(channel));
      await client.query(channels.map((channel) => `listen ${channel}`).join('; '));
      this.#client = client;
      this.#inTouchAt = askedAt;
    } catch (error) {
      void client?.end().catch(() => undefined);
      return this.#retry(error);
    }
    this.#failures = 0;
    if (this.#hasBeenLost) {
      log.info({}, 'database.notifications_regained');
      this.#hasBeenLost = false;
      for (const { onReturn } of this.#listeners.values()) onReturn();
    }
    if (!this.#isClosed) this.#probeLater(client);
  }

  #connectTo(url: string): Promise<pg.Client> {
    const settings = {
      application_name: 'muster-notifications',
      keepAlive: true,
      connectionTimeoutMillis: SILENCE_MS,
      query_timeout: SILENCE_MS,
    };
    return connectToPrimary(url, settings, (client) => {
      client.on('error', (error) => this.#lose(client, error));
      client.on('end', () => this.#lose(client, new Error('The database has closed the connection.')));
      client.on('notification', ({ channel, payload = '' }) => this.#take(channel, payload));
    });
  }

  #probeLater(client: pg.Client): void {
    this.#timer = clock.setTimeout(() => this.#probe(client), PROBE_MS);
  }

  #probe(client: pg.Client): void {
    const askedAt = clock.monotonic();
    this.#silence = clock.setTimeout(
      () => this.#lose(client, new Error('The database does not answer.')),
      SILENCE_MS,
    );
    client.query('select 1').then(
      () => {
        clock.clear(this.#silence);
        if (this.#client !== client || this.#isClosed) return;
        this.#inTouchAt = askedAt;
        this.#probeLater(client);
      },
      (error: unknown) => this.#lose(client, error),
    );
  }

  #lose(client: pg.Client, error: unknown): void {
    if (this.#client !== client || this.#isClosed) return;
    this.#client = undefined;
    clock.clear(this.#timer);
    clock.clear(this.#silence);
    // With an unanswered query the driver drops the connection at once instead of saying goodbye.
    void client.end().catch(() => undefined);
    this.#retry(error);
  }

  #retry(error: unknown): void {
    this.#inTouchAt = Number.NEGATIVE_INFINITY;
    if (!this.#hasBeenLost) this.#options.log.warn({ err: error }, 'database.notifications_lost');
    this.#hasBeenLost = true;
    if (this.#isClosed) return;
    const waitMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures, LAST_RETRY_MS);
    this.#failures += 1;
    this.#timer = clock.setTimeout(() => void this.#connect(), waitMs);
  }

  /** A transaction that changed many rows has as many notifications, which are handed on together. */
  #take(channel: string, payload: string): void {
    const listener = this.#listeners.get(channel);
    if (listener === undefined) return;
    listener.payloads.push(payload);
    if (listener.payloads.length > 1) return;
    setImmediate(() => {
      const payloads = listener.payloads;
      listener.payloads = [];
      if (!this.#isClosed) listener.onNotifications(payloads);
    });
  }
}

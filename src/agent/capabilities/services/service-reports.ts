import os from 'node:os';
import { clock, DAY_MS, MINUTE_MS, SECOND_MS, type Timer } from '../../../clock.ts';
import { HubRefused, type SendServices } from '../../core/answer-channel.ts';
import { ReportSender } from '../../core/report-sender.ts';
import type { ServerClock } from '../../core/server-clock.ts';
import type { ServiceList } from './service-reader.ts';
import { reportOf, seen, type SeenServices } from './service-changes.ts';

export interface ServiceReportsOptions {
  /** Throws if the services cannot be read. */
  read: () => Promise<ServiceList>;
  serverClock: ServerClock;
  warn: (message: string) => void;
  /** When the services are read first, and as long again by chance. Default: soon, but not while the machine starts. */
  firstMs?: number;
  /** For tests: a number from 0 to 1. */
  random?: () => number;
}

const FIRST_MS = 5 * SECOND_MS;
/** For so long after the start of a machine, services may still have to start. */
const STARTING_MS = 3 * MINUTE_MS;
const EVERY_MS = MINUTE_MS;
const AT_LEAST_EVERY_MS = 10 * MINUTE_MS;
/** Reading takes at most this part of the time: 100 ms a minute. A slower machine is read less often. */
const SHARE = 1 / 600;

/**
 * Reads the services of the machine about once a minute and sends what has changed since the server was told last. What
 * cannot be sent is not queued: the next report has the newest state of each service, and since when it is in it.
 */
export class ServiceReports {
  readonly #options: ServiceReportsOptions;
  readonly #random: () => number;
  #seen: SeenServices | undefined;
  /** What the server has acknowledged. */
  #told: SeenServices | undefined;
  /** When it has to be told everything again, in monotonic time, in case that it has forgotten something. */
  #completeAt = 0;
  readonly #sender: ReportSender<SendServices>;
  #isStopped = false;
  #reading: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  #lastWarning = '';
  /** Services that were restarted since the last reading, which may find them in the same state. */
  #restarted = new Set<string>();

  constructor(options: ServiceReportsOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#sender = new ReportSender({ sendAll: (send) => this.#sendAll(send), random: this.#random });
  }

  start(): void {
    const { firstMs = Math.max(FIRST_MS, STARTING_MS - uptimeMs()) } = this.#options;
    this.#readIn(firstMs * (1 + this.#random()));
  }

  /** Must be called with each new connection. @param send  valid until the connection ends */
  connected(send: SendServices): void {
    this.#sender.connected(send);
  }

  /** Must be called when the connection has ended. */
  disconnected(): void {
    this.#sender.disconnected();
  }

  /** Reads the services now, because one of them was changed. @param restarted  the name of one that was restarted */
  refresh(restarted?: string): void {
    if (restarted !== undefined) this.#restarted.add(restarted);
    if (this.#isStopped) return;
    clock.clear(this.#timer);
    // A reading that is under way may have seen the state before. It sets the timer of the next one.
    void this.#reading.then(() => {
      clock.clear(this.#timer);
      if (!this.#isStopped) this.#readIn(0);
    });
  }

  /** Resolves when the services that are being read are read. */
  async settle(): Promise<void> {
    await this.#reading;
  }

  /** Does not wait for a reading. */
  stop(): void {
    this.#isStopped = true;
    clock.clear(this.#timer);
    this.disconnected();
  }

  #readIn(ms: number): void {
    this.#timer = clock
      .setTimeout(() => {
        const startedAt = clock.monotonic();
        this.#reading = this.#read()
          .catch((error: unknown) =>
            this.#warnOnce(`The services of this machine cannot be read: ${String(error)}`),
          )
          .then(() => {
            const tookMs = clock.monotonic() - startedAt;
            const pauseMs = Math.min(AT_LEAST_EVERY_MS, Math.max(EVERY_MS, tookMs / SHARE));
            if (!this.#isStopped) this.#readIn(Math.max(SECOND_MS, pauseMs - tookMs));
          });
      }, ms)
      .unref();
  }

  async #read(): Promise<void> {
    const list = await this.#options.read();
    const restarted = this.#restarted;
    this.#restarted = new Set();
    this.#seen = seen(this.#seen, list, clock.monotonic(), restarted);
    this.#sender.wake();
  }

  async #sendAll(send: SendServices): Promise<void> {
    while (this.#sender.isCurrent(send) && this.#seen !== undefined) {
      const now = this.#seen;
      const isDue = clock.monotonic() >= this.#completeAt;
      const report = reportOf(isDue ? undefined : this.#told, now, (at) => this.#timeOf(at));
      if (report === undefined) return;
      try {
        await send(report);
      } catch (error) {
        if (!(error instanceof HubRefused)) throw error;
        if (error.code === 'UNKNOWN_EVENT') return this.#sender.refused(send);
        this.#warnOnce(`The server refused what this machine reports of its services: ${error.message}`);
      }
      this.#told = now;
      // At another time of each day, and not for all devices that began together.
      if (report.isComplete) this.#completeAt = clock.monotonic() + DAY_MS * (0.8 + 0.2 * this.#random());
    }
  }

  #timeOf(at: number): string {
    return new Date(this.#options.serverClock.now() - (clock.monotonic() - at)).toISOString();
  }

  #warnOnce(message: string): void {
    if (message !== this.#lastWarning) this.#options.warn(message);
    this.#lastWarning = message;
  }
}

function uptimeMs(): number {
  try {
    return os.uptime() * SECOND_MS;
  } catch {
    // Some containers forbid it.
    return STARTING_MS;
  }
}

import { z } from 'zod';
import { clock, HOUR_MS, MINUTE_MS, type Timer } from '../../../clock.ts';
import {
  MetricSample,
  type MetricSamples,
  SAMPLE_SECONDS,
  SAMPLES_KEPT_HOURS,
  SAMPLES_PER_MESSAGE,
} from '../../../protocol/index.ts';
import { HubRefused, type SendSamples } from '../../core/answer-channel.ts';
import { ReportSender } from '../../core/report-sender.ts';
import type { ServerClock } from '../../core/server-clock.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import type { Figures } from './machine-reading.ts';

export interface SampleReportsOptions {
  sample: () => Promise<Figures>;
  serverClock: ServerClock;
  /** Keeps samples through a restart. It belongs to the device of this enrollment. */
  file: string;
  warn: (message: string) => void;
  /** For tests: a number from 0 to 1. */
  random?: () => number;
}

const EVERY_MS = SAMPLE_SECONDS * 1000;
const KEPT_MAX = (SAMPLES_KEPT_HOURS * HOUR_MS) / EVERY_MS;
/** While there is no connection, the file is written so often: a machine that loses its power loses no more. */
const WRITE_EVERY_MS = 15 * MINUTE_MS;
/** A message costs the server as much as what is in it, so samples are sent by five. */
const SENT_TOGETHER = 5;
/** Between two messages of many samples, which are those of an outage. */
const PAUSE_MS = 5000;

interface Kept {
  figures: Figures;
  /** Of this run of the agent: by the monotonic clock, because the time of the server may not be known yet. */
  takenAt?: number;
  /** Of an earlier run. */
  at?: string;
}

const File = z.object({ samples: z.array(MetricSample.nullable().catch(null)) });

/** Takes a sample each minute, and sends some at a time. What cannot be sent is kept for a day, also through a restart. */
export class SampleReports {
  readonly #options: SampleReportsOptions;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  /** In the order in which they were taken. */
  #kept: Kept[] = [];
  readonly #sender: ReportSender<SendSamples>;
  /** With so many samples, they are sent. */
  #sendWith = SENT_TOGETHER;
  #sampling: Promise<void> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();
  #timer: Timer | undefined;
  /** How many samples the file has, and when it was written (monotonic). */
  #written = { count: 0, at: Number.NEGATIVE_INFINITY };
  #lastWarning = '';

  constructor(options: SampleReportsOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
    this.#sender = new ReportSender({ sendAll: (send) => this.#sendAll(send), random: this.#random });
  }

  async start(): Promise<void> {
    const found = File.safeParse(await readPrivateJson(this.#options.file).catch(() => undefined));
    const samples = found.data?.samples ?? [];
    this.#kept = samples.flatMap((sample) => {
      if (sample === null) return [];
      const { at, ...figures } = sample;
      return [{ figures, at }];
    });
    this.#written.count = samples.length;
    this.#sampleIn(this.#random() * EVERY_MS);
  }

  /** Must be called with each new connection. @param send  valid until the connection ends */
  connected(send: SendSamples): void {
    // Devices that have connected together do not all send in the same minute from then on.
    this.#sendWith = 1 + Math.floor(this.#random() * SENT_TOGETHER);
    this.#sender.connected(send);
  }

  /** Must be called when the connection has ended. */
  disconnected(): void {
    this.#sender.disconnected();
  }

  /** Resolves when a sample that is being taken is taken. */
  async settle(): Promise<void> {
    await this.#sampling;
  }

  /**
   * Writes what is not acknowledged to the file. Waits neither for a sample that is being taken nor for a server, either
   * of which may hang: a sample that is sent again changes nothing.
   */
  async stop(): Promise<void> {
    clock.clear(this.#timer);
    this.disconnected();
    this.#stop.abort();
    await this.#write();
  }

  #sampleIn(ms: number): void {
    this.#timer = clock
      .setTimeout(() => {
        const takenAt = clock.monotonic();
        this.#sampling = this.#take()
          .catch((error: unknown) =>
            this.#warnOnce(`The figures of this machine cannot be read: ${String(error)}`),
          )
          .then(() => {
            if (!this.#stop.signal.aborted) {
              this.#sampleIn(Math.max(1000, EVERY_MS - (clock.monotonic() - takenAt)));
            }
          });
      }, ms)
      .unref();
  }

  async #take(): Promise<void> {
    const figures = await this.#options.sample();
    if (this.#stop.signal.aborted) return;
    this.#kept.push({ figures, takenAt: clock.monotonic() });
    // The oldest go first.
    if (this.#kept.length > KEPT_MAX) this.#kept.splice(0, this.#kept.length - KEPT_MAX);
    if (this.#sender.isConnected) {
      if (this.#kept.length < this.#sendWith) return;
      this.#sendWith = SENT_TOGETHER;
      this.#sender.wake();
    } else if (clock.monotonic() - this.#written.at >= WRITE_EVERY_MS) await this.#write();
  }

  async #sendAll(send: SendSamples): Promise<void> {
    while (this.#kept.length > 0 && this.#sender.isCurrent(send)) {
      const batch = this.#kept.slice(0, SAMPLES_PER_MESSAGE);
      try {
        await send({ samples: batch.map((kept) => this.#sampleOf(kept)) });
      } catch (error) {
        if (!(error instanceof HubRefused)) throw error;
        if (error.code === 'UNKNOWN_EVENT') return this.#sender.refused(send);
        this.#warnOnce(`The server refused figures of this machine: ${error.message}`);
      }
      const sent = new Set(batch);
      this.#kept = this.#kept.filter((kept) => !sent.has(kept));
      if (this.#kept.length > 1) await clock.sleep(PAUSE_MS, { signal: this.#stop.signal, unref: true });
    }
    // After an outage: what the file has is sent.
    if (!this.#stop.signal.aborted && this.#kept.length === 0 && this.#written.count > 0) await this.#write();
  }

  #sampleOf({ figures, takenAt, at }: Kept): MetricSample {
    const ago = takenAt === undefined ? 0 : clock.monotonic() - takenAt;
    return { ...figures, at: at ?? new Date(this.#options.serverClock.now() - ago).toISOString() };
  }

  /** Resolves when the file has what is kept now. */
  #write(): Promise<void> {
    if (this.#kept.length === 0 && this.#written.count === 0) return this.#writing;
    const samples: MetricSamples['samples'] = this.#kept.map((kept) => this.#sampleOf(kept));
    this.#written = { count: samples.length, at: clock.monotonic() };
    this.#writing = this.#writing
      .then(() => writePrivateJson(this.#options.file, { samples }))
      .catch((error: unknown) =>
        this.#warnOnce(`The figures of this machine cannot be kept on disk: ${String(error)}`),
      );
    return this.#writing;
  }

  #warnOnce(message: string): void {
    if (message !== this.#lastWarning) this.#options.warn(message);
    this.#lastWarning = message;
  }
}

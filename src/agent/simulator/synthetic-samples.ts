import { clock, MINUTE_MS, type Timer } from '../../clock.ts';
import { type MetricSample, SAMPLE_SECONDS } from '../../protocol/index.ts';
import type { SendSamples } from '../core/answer-channel.ts';
import { diskGbOf, fraction, mix, osOf, syntheticHeartbeat } from './synthetic-machine.ts';

/** The samples of a simulated machine: the figures of its heartbeats, and what heartbeats do not have. */

const GIB = 2 ** 30;
/** At full load. */
const NETWORK_BYTES = 3_000_000;
const DISK_BYTES = 12_000_000;
/** From this load on, the program that causes it is named. */
const BUSY_PERCENT = 30;
const BUSY_PROGRAMS = { windows: 'chrome.exe', linux: 'postgres', macos: 'Safari' } as const;

/** What the machine measured at a time. It depends on nothing else, so a machine keeps no samples. */
export function syntheticSample(
  index: number,
  at: number,
  machine: { agentVersion: string; hasFailingDisk: boolean },
): MetricSample {
  const { metrics, uptimeSeconds } = syntheticHeartbeat(index, at, machine);
  const { cpuPercent = 0, ramPercent = 0, diskPercent = 0 } = metrics ?? {};
  const os = osOf(index);
  const totalBytes = diskGbOf(index) * GIB;
  const minute = Math.floor(at / MINUTE_MS);
  const rate = (most: number, part: number) =>
    Math.round((most * cpuPercent * (0.5 + fraction(index, part, minute))) / 100);
  return {
    at: new Date(at).toISOString(),
    cpuPercent,
    ramPercent,
    uptimeSeconds,
    ...(os === 'windows' ? {} : { load: Math.round(cpuPercent * 4) / 100 }),
    networkReceivedPerSecond: rate(NETWORK_BYTES, 51),
    networkSentPerSecond: rate(NETWORK_BYTES / 4, 52),
    diskReadPerSecond: rate(DISK_BYTES, 53),
    diskWrittenPerSecond: rate(DISK_BYTES / 2, 54),
    volumes: [
      {
        volume: os === 'windows' ? 'C:' : '/',
        usedBytes: Math.round((totalBytes * diskPercent) / 100),
        totalBytes,
      },
    ],
    ...(cpuPercent < BUSY_PERCENT
      ? {}
      : {
          processes: [
            {
              process: BUSY_PROGRAMS[os],
              cpuPercent: cpuPercent - 8,
              ramPercent: Math.round(ramPercent / 3),
            },
          ],
        }),
  };
}

const SAMPLE_MS = SAMPLE_SECONDS * 1000;
/** As real agents, which send their samples by five. */
const SENT_TOGETHER = 5;
const SPREAD_MS = 10_000;

/** Sends the samples of the last minutes, soon after each connection and regularly from then on. */
export class SyntheticSamples {
  readonly #index: number;
  readonly #sampleAt: (at: number) => MetricSample;
  readonly #now: () => number;
  #timer: Timer | undefined;
  /** The time of the last sample that the server has. */
  #sentUntil = 0;

  constructor(parts: { index: number; sampleAt: (at: number) => MetricSample; now: () => number }) {
    this.#index = parts.index;
    this.#sampleAt = parts.sampleAt;
    this.#now = parts.now;
  }

  /** Must be called with each new connection. */
  connected(send: SendSamples): void {
    this.stop();
    this.#sendIn(mix(this.#index, 50) % SPREAD_MS, send);
  }

  stop(): void {
    clock.clear(this.#timer);
  }

  #sendIn(ms: number, send: SendSamples): void {
    this.#timer = clock.setTimeout(() => {
      // What is lost with a connection is sent by the next one, if it is among the last samples then.
      void this.#send(send).catch(() => {});
      this.#sendIn(SENT_TOGETHER * SAMPLE_MS, send);
    }, ms);
  }

  async #send(send: SendSamples): Promise<void> {
    const newest = Math.floor(this.#now() / SAMPLE_MS) * SAMPLE_MS;
    const times = Array.from({ length: SENT_TOGETHER }, (_, ago) => newest - ago * SAMPLE_MS)
      .filter((at) => at > this.#sentUntil)
      .toReversed();
    if (times.length === 0) return;
    await send({ samples: times.map(this.#sampleAt) });
    this.#sentUntil = newest;
  }
}

import { clock } from '../clock.ts';

/** Over this time a pace is averaged. */
const PACE_WINDOW_MS = 60_000;
/** So finely it is kept. */
const STEP_MS = 5000;
/** In less waiting than this, a client has shown nothing. */
const LEAST_WAIT_MS = 10_000;

interface Step {
  until: number;
  bytes: number;
  waitedMs: number;
}

/**
 * How quick a client is with what it sends or takes: the bytes of the last minute, by the time in which the client was
 * waited for. The time that a disk or a database takes is not the client's.
 */
export class Pace {
  readonly #steps: Step[] = [];
  #waitingSince: number | undefined;

  /** From now on it is the client's turn. */
  waits(now: number): void {
    this.#waitingSince = now;
  }

  /** The client has sent or taken so much. */
  moved(now: number, bytes: number): void {
    const waitedMs = this.#waitingSince === undefined ? 0 : now - this.#waitingSince;
    this.#waitingSince = undefined;
    const last = this.#steps.at(-1);
    if (last !== undefined && now < last.until) {
      last.bytes += bytes;
      last.waitedMs += waitedMs;
    } else this.#steps.push({ until: now + STEP_MS, bytes, waitedMs });
    while ((this.#steps[0]?.until ?? now) < now - PACE_WINDOW_MS) this.#steps.shift();
  }

  /** `Infinity` where the client was hardly waited for. */
  bytesPerSecond(now: number): number {
    let [bytes, waitedMs] = [0, this.#waitingSince === undefined ? 0 : now - this.#waitingSince];
    for (const step of this.#steps) {
      if (step.until < now - PACE_WINDOW_MS) continue;
      bytes += step.bytes;
      waitedMs += step.waitedMs;
    }
    return waitedMs < LEAST_WAIT_MS ? Infinity : (1000 * bytes) / waitedMs;
  }
}

/**
 * Bytes in a second, of a client for which nobody waits: less is not the pace of any line, but that of a client that keeps
 * what it has. A line of 64 kbit/s has three times as much on each of restic's five connections.
 */
const LEAST_PACE = 512;

/** Returns whether a client that begins now has gone on quickly enough so far. It is judged after a minute. */
export function watchPace(pace: Pace): (now: number) => boolean {
  const since = clock.monotonic();
  return (now) => now - since < PACE_WINDOW_MS || pace.bytesPerSecond(now) >= LEAST_PACE;
}

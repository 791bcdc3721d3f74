import { clock, type Timer } from '../clock.ts';
import type { AppError } from './errors.ts';

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

  /** `Infinity` if the client was hardly waited for. */
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
 * Bytes in a second, of a client while no other waits: less is not the pace of any line, but that of a client that keeps
 * what it has. A line of 64 kbit/s has three times as much on each of restic's five connections.
 */
const LEAST_PACE = 512;

/** Returns whether a client that begins now has gone on quickly enough so far. It is judged after a minute. */
export function watchPace(pace: Pace): (now: number) => boolean {
  const since = clock.monotonic();
  return (now) => now - since < PACE_WINDOW_MS || pace.bytesPerSecond(now) >= LEAST_PACE;
}

/** The caller that the work belongs to. */
export interface SlotHolder {
  /** From the widest to the narrowest, such as a partner and an organization. Each key is of one level only. */
  levels: readonly string[];
  /** The narrowest of all, such as one device, which has a fixed number of slots at most. */
  leaf: { key: string; max: number; waitingMax: number };
}

/** A slot as the work that has it sees it. */
export interface Slot {
  /** Reports the speed of the work, and a way to end it, so that others can take the slot over. */
  mayBeTaken: (pace: Pace, end: () => void) => void;
}

export interface FairSlotsOptions {
  all: number;
  /** Work waits this long for its turn, and is refused then. */
  waitMs: number;
  /** So much waits at most: in all, and of one key of the widest level. The rest is refused at once. */
  waitingMax: { all: number; widest: number };
  /** Bytes in a second. Slower work is the first to lose its slot. */
  leastRate?: number;
  refusal: () => AppError;
}

interface Running {
  holder: SlotHolder;
  since: number;
  pace?: Pace;
  end?: () => void;
  /** The waiter that gets the slot when the work has ended. */
  takenFor?: Waiter;
}

interface Waiter {
  holder: SlotHolder;
  begin: () => void;
}

/** Work that has had its slot for so long can lose it. */
const KEPT_MS = 60_000;
const LOOK_MS = 1000;

/**
 * Shares out slots so that no caller keeps the others out:
 * - **Headroom.** Each key of the widest level has at most as many slots as are then still free, and each narrower one the
 *   same within what is left to the wider one. One partner alone has half of all, two have three quarters, and a newcomer
 *   finds a slot at once.
 * - **Turns.** A slot that becomes free goes to the caller with the fewest.
 * - **Take-over.** If nothing is free, work that has had its slot for a minute loses it to a waiter who has fewer: at
 *   least two fewer, or one if the work is slower than the least rate. No caller takes anything from their own
 * narrowest
 *   level: devices behind one slow line would take each other's slots for ever, and none of them would come to an end.
 */
export class FairSlots {
  readonly #options: FairSlotsOptions;
  readonly #counts = new Map<string, number>();
  readonly #waitingOf = new Map<string, number>();
  readonly #running = new Set<Running>();
  readonly #waiting = new Set<Waiter>();
  #timer: Timer | undefined;
  #refused = 0;

  constructor(options: FairSlotsOptions) {
    this.#options = options;
  }

  get state(): { running: number; waiting: number; refused: number } {
    return { running: this.#running.size, waiting: this.#waiting.size, refused: this.#refused };
  }

  /** Throws what `refusal` returns if the work does not get its turn in time, or the signal is aborted before. */
  async run<T>(
    holder: SlotHolder,
    work: (slot: Slot) => PromiseLike<T>,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<T> {
    const running = this.#mayBegin(holder) ? this.#enter(holder) : await this.#turn(holder, signal);
    try {
      return await work({
        mayBeTaken: (pace, end) => Object.assign(running, { pace, end }),
      });
    } finally {
      this.#running.delete(running);
      this.#count(this.#counts, holder, -1);
      const { takenFor } = running;
      if (takenFor !== undefined && this.#waiting.has(takenFor) && this.#mayBegin(takenFor.holder)) {
        takenFor.begin();
      }
      this.#beginOthers();
    }
  }

  /** Resolves when it is the holder's turn, which lasts until the request is closed. Throws as `run` does. */
  hold(
    holder: SlotHolder,
    { signal, closed }: { signal: AbortSignal; closed: Promise<void> },
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const work = () => {
        resolve();
        return closed;
      };
      this.run(holder, work, { signal }).catch(reject);
    });
  }

  #enter(holder: SlotHolder): Running {
    const running: Running = { holder, since: clock.monotonic() };
    this.#running.add(running);
    this.#count(this.#counts, holder, 1);
    return running;
  }

  /** Resolves when the holder has a slot. */
  async #turn(holder: SlotHolder, signal: AbortSignal | undefined): Promise<Running> {
    const { waitMs, waitingMax } = this.#options;
    const [widest] = holder.levels;
    const isFull =
      this.#waiting.size >= waitingMax.all ||
      (this.#waitingOf.get(holder.leaf.key) ?? 0) >= holder.leaf.waitingMax ||
      (widest !== undefined && (this.#waitingOf.get(widest) ?? 0) >= waitingMax.widest);
    if (isFull || signal?.aborted === true) throw this.#refuse();
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiter);
        this.#count(this.#waitingOf, holder, -1);
        clock.clear(timer);
        signal?.removeEventListener('abort', giveUp);
        if (this.#waiting.size === 0) this.#stopLooking();
      };
      const giveUp = () => {
        leave();
        reject(this.#refuse());
      };
      const waiter: Waiter = {
        holder,
        begin: () => {
          leave();
          resolve(this.#enter(holder));
        },
      };
      const timer = clock.setTimeout(giveUp, waitMs);
      this.#waiting.add(waiter);
      this.#count(this.#waitingOf, holder, 1);
      signal?.addEventListener('abort', giveUp);
      this.#timer ??= clock.setInterval(() => this.#takeOver(), LOOK_MS).unref();
    });
  }

  #stopLooking(): void {
    clock.clear(this.#timer);
    this.#timer = undefined;
  }

  /** @param without  a slot that is taken to be free already */
  #mayBegin({ levels, leaf }: SlotHolder, without?: Running): boolean {
    const running = (key: string) =>
      (this.#counts.get(key) ?? 0) - (without !== undefined && keysOf(without.holder).includes(key) ? 1 : 0);
    if (running(leaf.key) >= leaf.max) return false;
    let room = this.#options.all - this.#running.size + (without === undefined ? 0 : 1);
    for (const level of levels) {
      if (running(level) >= room) return false;
      room = Math.ceil((room + running(level)) / 2) - running(level);
    }
    return room > 0;
  }

  #beginOthers(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) next.begin();
  }

  #next(): Waiter | undefined {
    let next: Waiter | undefined;
    for (const waiter of this.#waiting) {
      const isBetter = next === undefined || this.#hasFewer(waiter, next);
      if (isBetter && this.#mayBegin(waiter.holder)) next = waiter;
    }
    return next;
  }

  /** Among waiters with as many slots, earlier ones stay first. */
  #hasFewer(one: Waiter, other: Waiter): boolean {
    for (const [n, level] of one.holder.levels.entries()) {
      const difference = this.#has(level) - this.#has(other.holder.levels[n] ?? '');
      if (difference !== 0) return difference < 0;
    }
    return false;
  }

  #has = (key: string): number => this.#counts.get(key) ?? 0;

  /** One slot for each key of the widest level, in each look. */
  #takeOver(): void {
    const looked = new Set<string | undefined>();
    for (const waiter of this.#waiting) {
      const { levels, leaf } = waiter.holder;
      if (looked.has(levels[0]) || looked.has(leaf.key)) continue;
      looked.add(leaf.key);
      const victim = this.#victimFor(waiter.holder);
      if (victim === undefined) continue;
      looked.add(levels[0]);
      victim.takenFor = waiter;
      victim.end?.();
    }
  }

  #victimFor(holder: SlotHolder): Running | undefined {
    const now = clock.monotonic();
    const { leastRate = 0 } = this.#options;
    let victim: { running: Running; rate: number } | undefined;
    for (const running of this.#running) {
      const { pace, takenFor, since } = running;
      if (pace === undefined || takenFor !== undefined || now - since < KEPT_MS) continue;
      const rate = pace.bytesPerSecond(now);
      if (victim !== undefined && victim.rate <= rate) continue;
      if (this.#excess(running.holder, holder) < (rate < leastRate ? 1 : 2)) continue;
      if (this.#mayBegin(holder, running)) victim = { running, rate };
    }
    return victim?.running;
  }

  /** How many slots one has more than another, on the widest level on which they are not the same. */
  #excess(one: SlotHolder, other: SlotHolder): number {
    for (const [n, level] of one.levels.entries()) {
      const another = other.levels[n] ?? '';
      if (level !== another) return this.#has(level) - this.#has(another);
    }
    return 0;
  }

  #count(counts: Map<string, number>, holder: SlotHolder, by: 1 | -1): void {
    for (const key of keysOf(holder)) {
      const count = (counts.get(key) ?? 0) + by;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
  }

  #refuse(): AppError {
    this.#refused += 1;
    return this.#options.refusal();
  }
}

const keysOf = ({ levels, leaf }: SlotHolder): string[] => [...levels, leaf.key];

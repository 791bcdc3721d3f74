import { clock, type Timer, type TimeSource } from '../../src/clock.ts';
import { takeIdsFrom } from '../../src/platform/ids.ts';
import { History } from './history.ts';
import { Random } from './random.ts';

/** What can die, freeze and have a wrong clock: a server, a program on a machine, a person's browser. */
export class Process {
  readonly name: string;
  /** What a dead process was to do or to hear does not happen. */
  isAlive = true;
  /** Until then nothing happens in it; it catches up afterwards. */
  frozenUntil = 0;
  /** For how long it was frozen, all in all. */
  frozenMs = 0;
  /** Milliseconds by which the clock of its machine is wrong. */
  clockAhead = 0;

  constructor(name: string) {
    this.name = name;
  }
}

/** 2026-06-01, 00:00 UTC. */
const BEGUN_AT = Date.UTC(2026, 5, 1);

interface Scheduled {
  at: number;
  /** When it was to happen before its process froze: events that wait for the same end of it keep their order. */
  dueAt: number;
  order: number;
  owner: Process;
  run: () => void;
  isCancelled: boolean;
}

/**
 * A world in which everything happens in an order that the seed determines: one event at a time, each in one process, and
 * with all that follows from it at once (promises, `setImmediate`) before the next one. So the process of an event is
 * also that of the timers that the code behind a promise sets, and each process can have its own clock and its own end.
 */
export class World {
  readonly seed: number;
  readonly history: History;
  /** What the world itself does: networks and databases. */
  readonly itself = new Process('world');
  now = 0;
  /** How many events there were. */
  events = 0;
  readonly #queue = new Heap();
  readonly #streams = new Map<string, Random>();
  #order = 0;
  #ids = 0;
  #current: Process = this.itself;
  #immediates: { owner: Process; run: () => void }[] = [];

  /** @param tail  how many lines of its history are kept */
  constructor(seed: number, tail: number) {
    this.seed = seed;
    this.history = new History(() => this.now, tail);
  }

  /** The process in which something happens at this moment. */
  get current(): Process {
    return this.#current;
  }

  /** The time by a clock that is never wrong. */
  wallTime(): number {
    return Math.round(BEGUN_AT + this.now);
  }

  random(stream: string): Random {
    let random = this.#streams.get(stream);
    if (random === undefined) {
      random = new Random(this.seed, stream);
      this.#streams.set(stream, random);
    }
    return random;
  }

  /** A version 7 UUID that only counts. */
  newId(): string {
    return `00000000-0000-7000-8000-${(++this.#ids).toString(16).padStart(12, '0')}`;
  }

  /** Lets something happen in a process after a time. */
  after(ms: number, owner: Process, run: () => void): Scheduled {
    const at = this.now + Math.max(0, ms);
    const event = { at, dueAt: at, order: ++this.#order, owner, run, isCancelled: false };
    this.#queue.push(event);
    return event;
  }

  /** Resolves in a process after a time. */
  sleep(ms: number, owner: Process): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, owner, resolve);
    });
  }

  /**
   * Runs with the world's time, randomness and ids in place of those of this program.
   * @param body  receives the function that lets time pass
   */
  async run(body: (pass: (ms: number) => Promise<void>) => Promise<void>): Promise<void> {
    const former = {
      time: clock.takeTimeFrom(new WorldTime(this)),
      ids: takeIdsFrom(() => this.newId()),
      random: Math.random,
      setImmediate: globalThis.setImmediate,
    };
    const ofProgram = this.random('program');
    Math.random = () => ofProgram.next();
    const immediate = (run: (...args: unknown[]) => void, ...args: unknown[]) => {
      this.#immediates.push({ owner: this.#current, run: () => run(...args) });
    };
    globalThis.setImmediate = immediate as unknown as typeof setImmediate;
    try {
      await body((ms) => this.#pass(ms));
    } finally {
      clock.takeTimeFrom(former.time);
      takeIdsFrom(former.ids);
      Math.random = former.random;
      globalThis.setImmediate = former.setImmediate;
    }
  }

  async #pass(ms: number): Promise<void> {
    const end = this.now + ms;
    await promisesDone();
    for (let event = this.#queue.first; event !== undefined && event.at <= end; event = this.#queue.first) {
      this.#queue.shift();
      const { owner } = event;
      if (event.isCancelled || !owner.isAlive) continue;
      if (owner.frozenUntil > event.at) {
        this.#queue.push(Object.assign(event, { at: owner.frozenUntil }));
        continue;
      }
      this.now = Math.max(this.now, event.at);
      this.events += 1;
      this.#happen(owner, event.run);
      await promisesDone();
      while (this.#immediates.length > 0) {
        for (const { owner, run } of this.#immediates.splice(0)) this.#happen(owner, run);
        await promisesDone();
      }
      if (this.history.isOver) return;
    }
    this.now = Math.max(this.now, end);
    this.#current = this.itself;
  }

  #happen(owner: Process, run: () => void): void {
    if (!owner.isAlive) return;
    this.#current = owner;
    try {
      run();
    } catch (error) {
      // In a real program this would be an uncaught exception, which ends it.
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.history.violated('no-crash', `${owner.name} had an uncaught exception: ${text}`);
    }
  }
}

/** Node runs the next tick when no promise is left that could go on. It costs a tenth of a turn of the event loop. */
const promisesDone = () => new Promise<void>((resolve) => process.nextTick(resolve));

/** The time of whichever process is running. */
class WorldTime implements TimeSource {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  now(): number {
    return this.#world.wallTime() + this.#world.current.clockAhead;
  }

  monotonic(): number {
    return this.#world.now;
  }

  setTimeout(callback: () => void, ms: number): Timer {
    return new WorldTimer(this.#world, callback, ms, false);
  }

  setInterval(callback: () => void, ms: number): Timer {
    return new WorldTimer(this.#world, callback, ms, true);
  }

  clear(timer: Timer | undefined): void {
    if (timer instanceof WorldTimer) timer.stop();
  }
}

class WorldTimer implements Timer {
  readonly #world: World;
  readonly #owner: Process;
  readonly #callback: () => void;
  readonly #ms: number;
  readonly #isRepeated: boolean;
  #event: Scheduled | undefined;

  constructor(world: World, callback: () => void, ms: number, isRepeated: boolean) {
    this.#world = world;
    this.#owner = world.current;
    this.#callback = callback;
    // As Node has it: no time, and too long a one, are a millisecond.
    this.#ms = ms >= 1 && ms <= 2_147_483_647 ? ms : 1;
    this.#isRepeated = isRepeated;
    this.refresh();
  }

  unref(): this {
    return this;
  }

  refresh(): this {
    this.stop();
    this.#event = this.#world.after(this.#ms, this.#owner, () => {
      if (this.#isRepeated) this.refresh();
      this.#callback();
    });
    return this;
  }

  stop(): void {
    if (this.#event !== undefined) this.#event.isCancelled = true;
  }
}

/** The next event first; of two at one time the one that was due or scheduled first. */
class Heap {
  readonly #items: Scheduled[] = [];

  get first(): Scheduled | undefined {
    return this.#items[0];
  }

  push(item: Scheduled): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !isBefore(item, above)) break;
      items[at] = above;
      at = parent;
    }
    items[at] = item;
  }

  shift(): void {
    const items = this.#items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      let below = items[child];
      if (below === undefined) break;
      const right = items[child + 1];
      if (right !== undefined && isBefore(right, below)) {
        child += 1;
        below = right;
      }
      if (!isBefore(below, last)) break;
      items[at] = below;
      at = child;
    }
    items[at] = last;
  }
}

function isBefore(one: Scheduled, other: Scheduled): boolean {
  if (one.at !== other.at) return one.at < other.at;
  return one.dueAt === other.dueAt ? one.order < other.order : one.dueAt < other.dueAt;
}

import { systemTime, type Timer, type TimeSource } from '../../src/clock.ts';

/**
 * The time of the programs under test. It runs with the machine's time until a test moves it: `advance` fires whatever
 * falls due, in order, without waiting. A stopped clock moves by `advance` alone.
 */
export class TestClock implements TimeSource {
  readonly #pending = new Set<TestTimer>();
  #isRunning: boolean;
  /** Milliseconds by which this clock is ahead of the machine's monotonic time; while it is stopped, its own time. */
  #offset: number;
  /** Milliseconds by which `now` is ahead of the machine's clock; while this one is stopped, of its own monotonic time. */
  #ahead: number;
  #order = 0;

  constructor({ isRunning = true, at = Date.now() }: { isRunning?: boolean; at?: number } = {}) {
    this.#isRunning = isRunning;
    // Whole milliseconds, so that the sum of many timers is exactly what a test expects.
    this.#offset = isRunning ? 0 : Math.ceil(performance.now());
    this.#ahead = at - (isRunning ? Date.now() : this.#offset);
  }

  now(): number {
    return this.#isRunning ? Date.now() + this.#ahead : Math.round(this.#offset + this.#ahead);
  }

  monotonic(): number {
    return this.#isRunning ? performance.now() + this.#offset : this.#offset;
  }

  setTimeout(callback: () => void, ms: number): Timer {
    return this.#add(callback, ms, false);
  }

  setInterval(callback: () => void, ms: number): Timer {
    return this.#add(callback, ms, true);
  }

  clear(timer: Timer | undefined): void {
    if (timer instanceof TestTimer) timer.stop();
    // Of the time before this clock was installed.
    else systemTime.clear(timer);
  }

  /** How many timers are pending, for a test that nothing is left behind. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Pending timers never fire. */
  abandon(): void {
    for (const timer of this.#pending) timer.stop();
  }

  /** From now on time passes by `advance` alone. */
  stop(): void {
    if (!this.#isRunning) return;
    const now = this.now();
    this.#offset = this.monotonic();
    this.#ahead = now - this.#offset;
    this.#isRunning = false;
    for (const timer of this.#pending) timer.pause();
  }

  /** From now on time passes as it does for the machine. */
  run(): void {
    if (this.#isRunning) return;
    this.#ahead = this.now() - Date.now();
    this.#offset -= performance.now();
    this.#isRunning = true;
    for (const timer of this.#pending) timer.schedule();
  }

  /** The machine's clock is set: `now` jumps, and timers do not notice. */
  jump(ms: number): void {
    this.#ahead += ms;
  }

  /** It runs, and `now` shows the machine's time. Pending timers keep what is left of their time. */
  reset(): void {
    this.run();
    this.#ahead = 0;
  }

  /**
   * Moves time forward and fires each timer that falls due at its moment, in order. Between two of them it lets promises
   * and input go on, so that a timer which one of them sets falls due in its turn.
   */
  async advance(ms: number): Promise<void> {
    const wasRunning = this.#isRunning;
    const startedAt = performance.now();
    this.stop();
    const end = this.#offset + ms;
    await turn();
    for (let next = this.#nextUntil(end); next !== undefined; next = this.#nextUntil(end)) {
      this.#offset = Math.max(this.#offset, next.dueAt);
      next.fire();
      await turn();
    }
    this.#offset = Math.max(this.#offset, end);
    if (!wasRunning) return;
    // What this has taken has passed as well; else the clock would fall behind the machine's a little each time.
    this.#offset += performance.now() - startedAt;
    this.run();
  }

  #nextUntil(end: number): TestTimer | undefined {
    let first: TestTimer | undefined;
    for (const timer of this.#pending) {
      if (timer.dueAt > end) continue;
      if (first === undefined || timer.dueAt < first.dueAt) first = timer;
      else if (timer.dueAt === first.dueAt && timer.order < first.order) first = timer;
    }
    return first;
  }

  #add(callback: () => void, ms: number, isRepeated: boolean): Timer {
    const timer = new TestTimer(this, this.#pending, {
      callback,
      // As Node has it: no time, and too long a one, are a millisecond.
      ms: ms >= 1 && ms <= 2_147_483_647 ? ms : 1,
      isRepeated,
      order: ++this.#order,
    });
    timer.refresh();
    return timer;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }
}

interface TimerParts {
  callback: () => void;
  ms: number;
  isRepeated: boolean;
  /** Of two that fall due together, the one that was set first fires first. */
  order: number;
}

class TestTimer implements Timer {
  readonly #clock: TestClock;
  readonly #pending: Set<TestTimer>;
  readonly #parts: TimerParts;
  #real: NodeJS.Timeout | undefined;
  #holdsProgram = true;
  dueAt = 0;

  constructor(clock: TestClock, pending: Set<TestTimer>, parts: TimerParts) {
    this.#clock = clock;
    this.#pending = pending;
    this.#parts = parts;
  }

  get order(): number {
    return this.#parts.order;
  }

  unref(): this {
    this.#holdsProgram = false;
    this.#real?.unref();
    return this;
  }

  refresh(): this {
    this.dueAt = this.#clock.monotonic() + this.#parts.ms;
    this.#pending.add(this);
    if (this.#clock.isRunning) this.schedule(this.#parts.ms);
    return this;
  }

  /** Lets the machine's time fire it. */
  schedule(inMs = Math.max(0, this.dueAt - this.#clock.monotonic())): void {
    clearTimeout(this.#real);
    this.#real = setTimeout(() => this.fire(), inMs);
    if (!this.#holdsProgram) this.#real.unref();
  }

  pause(): void {
    clearTimeout(this.#real);
    this.#real = undefined;
  }

  stop(): void {
    this.pause();
    this.#pending.delete(this);
  }

  fire(): void {
    this.stop();
    if (this.#parts.isRepeated) this.refresh();
    this.#parts.callback();
  }
}

/** Promises, and what the network has brought meanwhile, go on. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The time of the programs within this test process (`hooks.ts` installs it). After each test file it runs again. */
export const testClock = new TestClock();

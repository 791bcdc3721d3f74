import { clock, MINUTE_MS, type Timer } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { newId } from '../../platform/ids.ts';
import type { Logger } from '../../platform/logger.ts';
import type { AddedCommand } from '../commands/index.ts';
import { type AttemptEnd, WorkAttempt } from './attempt.ts';
import type { BehavedKind } from './definition.ts';
import { FIRST_TURN, type StoredOutcome, WorkStore } from './work.queries.ts';

export interface WorkTiming {
  /** How often the database is asked for work. What this process adds itself is begun at once. */
  pollMs: number;
  /** What a process held that is gone is taken over after this time. Leases are renewed three times as often. */
  leaseMs: number;
  /** A stopping server gives steps so long to end by themselves before it aborts them. */
  graceMs: number;
  /** So long it waits for them in all. */
  closeMs: number;
}

export const WORK_TIMING: WorkTiming = { pollMs: 1000, leaseMs: 30_000, graceMs: 2000, closeMs: 5000 };

/** How many turns one claim looks at: what it costs does not grow with the number of tenants that have work. */
const TURNS_MAX = 200;
/** Where a claim got as much as it could take, the next one follows without a look for so long. */
const LOOK_AT_LEAST_EVERY_MS = 100;
/** Work that waits for a device whose connection was missed is found after this time. */
const UNPARK_EVERY_MS = MINUTE_MS;

interface Parts {
  db: Db;
  nodeId: string;
  timing: WorkTiming;
  log: Logger;
  onCommands: (commands: readonly AddedCommand[]) => void;
  onEnd: (kind: string, end: AttemptEnd) => void;
}

/** Claims due work, runs its steps, and renews the lease of all that it holds. */
export class WorkDispatcher {
  readonly #parts: Parts;
  readonly #kinds = new Map<string, BehavedKind>();
  readonly #running = new Map<string, WorkAttempt>();
  readonly #cycles = new Map<string, Cycle>();
  #store: WorkStore;
  /** By `clock.monotonic()`: until then no other process takes over what this one holds. */
  #heldUntil = Number.NEGATIVE_INFINITY;
  #outcomes: WaitingOutcome[] = [];
  #isStoring = false;
  #looping: Promise<void> = Promise.resolve();
  #looked: Promise<unknown> = Promise.resolve();
  #renewing: Promise<void> | undefined;
  #timers: Timer[] = [];
  #wake = () => {};
  #isAwake = false;
  #wakes = 0;
  readonly #turned = new Set<string>();
  /** The kinds of which there probably is more than the last claim could take. */
  readonly #plentiful = new Set<string>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #unparkedAt = Number.NEGATIVE_INFINITY;
  #isDatabaseAway = false;
  #isClosing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#store = this.#newHolder();
  }

  add(kind: BehavedKind): void {
    if (this.#kinds.has(kind.kind)) throw new Error(`The work ${kind.kind} has a behavior already.`);
    this.#kinds.set(kind.kind, kind);
  }

  kind(name: string): BehavedKind | undefined {
    return this.#kinds.get(name);
  }

  start(): void {
    const { leaseMs } = this.#parts.timing;
    this.#looping = this.#loop();
    this.#timers = [
      clock.setInterval(() => void this.#renew(), leaseMs / 3).unref(),
      clock.setInterval(() => this.#dropUnheld(), leaseMs / 10).unref(),
    ];
  }

  /** Work was added, or may be due: the next look is now. */
  wake(): void {
    this.#isAwake = true;
    this.#wakes += 1;
    this.#wake();
  }

  /** Notes devices that may have connected. The next round, which is not begun for that, finds the work that waits for them. */
  turned(deviceIds: readonly string[]): void {
    for (const id of deviceIds) this.#turned.add(id);
  }

  /** Runs what is due now, and what that adds, until nothing is due. */
  async settle(): Promise<void> {
    for (;;) {
      const wakes = this.#wakes;
      const hasFound = await this.#look();
      if (!hasFound && this.#running.size === 0 && this.#wakes === wakes) return;
      await this.#allEnded();
    }
  }

  /** Begins nothing more. What is running may end by itself for a while, is then aborted, and given back. */
  async close(): Promise<void> {
    const { graceMs, closeMs } = this.#parts.timing;
    const until = clock.monotonic() + closeMs;
    const left = () => Math.max(0, until - clock.monotonic());
    this.#isClosing = true;
    this.#wake();
    await within(left(), this.#looping);
    await within(Math.min(graceMs, left()), this.#allEnded());
    for (const attempt of this.#running.values()) attempt.stop('closing');
    await within(left(), this.#allEnded());
    for (const timer of this.#timers) clock.clear(timer);
    if (this.#running.size === 0) return;
    const work = [...this.#running.values()].map(({ kind, claimed }) => `${kind.kind} ${claimed.id}`);
    this.#parts.log.warn({ work }, 'work.left_running');
  }

  #newHolder(): WorkStore {
    const { db, nodeId } = this.#parts;
    return new WorkStore(db, { id: newId(), nodeId });
  }

  get #isHeld(): boolean {
    return clock.monotonic() < this.#heldUntil;
  }

  async #allEnded(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  async #loop(): Promise<void> {
    while (!this.#isClosing) {
      try {
        await this.#look();
        this.#isDatabaseAway = false;
      } catch (error) {
        // Logged once for each time that the database is away.
        if (!this.#isDatabaseAway) this.#parts.log.warn({ err: error }, 'work.look_failed');
        this.#isDatabaseAway = true;
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (this.#isClosing || (this.#isAwake && !this.#isDatabaseAway)) return;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimeout(() => resolve(), this.#parts.timing.pollMs).unref();
      this.#wake = () => {
        clock.clear(timer);
        resolve();
      };
    });
  }

  /** One round at a time. Returns whether there was something to do. */
  #look(): Promise<boolean> {
    const looking = this.#looked.then(() => this.#round());
    this.#looked = looking.catch(() => undefined);
    return looking;
  }

  async #round(): Promise<boolean> {
    this.#isAwake = false;
    if (!this.#isHeld) await this.#renew();
    if (this.#plentiful.size > 0 && clock.monotonic() - this.#lookedAt < LOOK_AT_LEAST_EVERY_MS) {
      const kinds = [...this.#plentiful];
      this.#plentiful.clear();
      for (const kind of kinds) await this.#claim(kind);
      return true;
    }
    this.#lookedAt = clock.monotonic();
    const free = [...this.#kinds.values()].filter((kind) => this.#free(kind) > 0);
    // Before the look, which says whether any work is parked: what is noted while it runs counts in the next round.
    const turned = [...this.#turned];
    this.#turned.clear();
    const look = await this.#store.look(free.map(({ kind }) => kind));
    if (!look.lives) {
      this.#takeNewHolder();
      return true;
    }
    for (const { id, reason } of look.stopped) this.#running.get(id)?.stop(reason);
    if (look.overdue) await this.#takeOver();
    if (look.parked && (await this.#unpark(turned))) this.#isAwake = true;
    let claimed = 0;
    for (const kind of look.waiting) claimed += await this.#claim(kind);
    return look.overdue || claimed > 0 || this.#isAwake;
  }

  /** However many devices connect, this costs one statement a round. */
  async #unpark(turned: readonly string[]): Promise<boolean> {
    const isTimeForAll = clock.monotonic() - this.#unparkedAt > UNPARK_EVERY_MS;
    if (isTimeForAll) this.#unparkedAt = clock.monotonic();
    else if (turned.length === 0) return false;
    return (await this.#store.unpark(isTimeForAll ? undefined : turned)) > 0;
  }

  async #takeOver(): Promise<void> {
    this.#isAwake = true;
    for (const { id, kind } of await this.#store.takeOver()) {
      this.#parts.log.warn({ work: kind, workId: id }, 'work.taken_over');
    }
  }

  /** Attempts whose outcome is being stored do not count, but no more of them wait than may run. */
  #free({ kind, limits: { inProcess } }: BehavedKind): number {
    let running = 0;
    let stored = 0;
    for (const attempt of this.#running.values()) {
      if (attempt.kind.kind !== kind) continue;
      if (attempt.isBeingStored) stored += 1;
      else running += 1;
    }
    return Math.min(inProcess - running, 2 * inProcess - running - stored);
  }

  /** Returns how many attempts it has begun. */
  async #claim(name: string): Promise<number> {
    const kind = this.#kinds.get(name);
    if (kind === undefined || this.#isClosing || !this.#isHeld) return 0;
    const free = this.#free(kind);
    if (free <= 0) return 0;
    const store = this.#store;
    const cycle = this.#cycles.get(name) ?? { afterTurn: FIRST_TURN, fruitless: 0 };
    this.#cycles.set(name, cycle);
    try {
      const { claimed, turns, lastTurn } = await store.claim({
        kind: name,
        limits: kind.limits,
        free,
        runsOnServer: kind.runsOnServer,
        afterTurn: cycle.afterTurn,
        turns: TURNS_MAX,
      });
      if (hasMoreTurns(cycle, claimed.length, turns < TURNS_MAX ? null : lastTurn)) this.#isAwake = true;
      if (claimed.length === free) this.#plentiful.add(name);
      for (const work of claimed) {
        const attempt = new WorkAttempt(kind, work, {
          store,
          storeSoon: (outcome) => {
            // The next are claimed while these are stored.
            if (this.#plentiful.has(name)) this.wake();
            return this.#storeSoon(store, outcome);
          },
          isHeld: () => this.#store === store && this.#isHeld,
          onCommand: (command) => this.#parts.onCommands([command]),
          log: this.#parts.log,
        });
        this.#running.set(work.id, attempt);
        void attempt.ended.then((end) => this.#ended(attempt, end));
      }
      return claimed.length;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      // The other kinds get their turn.
      this.#parts.log.error({ err: error, work: name }, 'work.claim_failed');
      return 0;
    }
  }

  #ended(attempt: WorkAttempt, end: AttemptEnd): void {
    if (this.#running.get(attempt.claimed.id) === attempt) this.#running.delete(attempt.claimed.id);
    this.#parts.onEnd(attempt.kind.kind, end);
    this.wake();
  }

  /** Outcomes that come while a statement is under way go together in the next one. */
  #storeSoon(store: WorkStore, outcome: StoredOutcome): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#outcomes.push({ store, outcome, resolve, reject });
      if (!this.#isStoring) void this.#storeAll();
    });
  }

  async #storeAll(): Promise<void> {
    this.#isStoring = true;
    // Lets the attempts that end in this turn of the event loop come along.
    await new Promise((resolve) => setImmediate(resolve));
    for (let [first] = this.#outcomes; first !== undefined; [first] = this.#outcomes) {
      const { store } = first;
      const batch = this.#outcomes.filter((waiting) => waiting.store === store);
      this.#outcomes = this.#outcomes.filter((waiting) => waiting.store !== store);
      await storeBatch(store, batch);
    }
    // In the same turn as the look above, so that nothing is left lying between the two.
    this.#isStoring = false;
  }

  async #renew(): Promise<void> {
    this.#renewing ??= this.#keepAlive().finally(() => (this.#renewing = undefined));
    await this.#renewing;
  }

  async #keepAlive(): Promise<void> {
    const { leaseMs } = this.#parts.timing;
    const sentAt = clock.monotonic();
    const store = this.#store;
    try {
      if (await store.keepAlive(leaseMs)) {
        this.#heldUntil = sentAt + leaseMs;
        return;
      }
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'work.lease_not_renewed');
      return;
    }
    this.#takeNewHolder();
  }

  /** Others may have taken over what the former one held. */
  #takeNewHolder(): void {
    this.#heldUntil = Number.NEGATIVE_INFINITY;
    this.#dropUnheld();
    this.#store = this.#newHolder();
    this.wake();
  }

  /** Without the database nothing is renewed, and another server that still has it begins this work again. */
  #dropUnheld(): void {
    if (this.#isHeld) return;
    for (const attempt of this.#running.values()) attempt.stop('lease_lost');
  }
}

interface WaitingOutcome {
  store: WorkStore;
  outcome: StoredOutcome;
  resolve: (isKept: boolean) => void;
  reject: (error: unknown) => void;
}

/** One outcome that the database refuses takes none of the others along. */
async function storeBatch(store: WorkStore, batch: readonly WaitingOutcome[]): Promise<void> {
  try {
    const kept = await store.store(batch.map(({ outcome }) => outcome));
    for (const { outcome, resolve } of batch) resolve(kept.has(outcome.id));
  } catch (error) {
    if (batch.length > 1 && !isDatabaseAway(error)) {
      for (const waiting of batch) await storeBatch(store, [waiting]);
    } else {
      for (const { reject } of batch) reject(error);
    }
  }
}

/** How far the claims of a kind are in going round the turns. */
interface Cycle {
  afterTurn: string;
  /** How often they have come to the last turn since something was claimed. */
  fruitless: number;
}

/**
 * Notes a claim. Returns whether to claim again at once: more turns may have work, behind these or before the one at which
 * the claims began. Where limits hold all of them up, that ends after a whole cycle, until the next look.
 * @param lastTurn  the last turn of the claim, `null` if none comes after it
 */
function hasMoreTurns(cycle: Cycle, claimed: number, lastTurn: string | null): boolean {
  const began = cycle.afterTurn;
  if (claimed > 0) cycle.fruitless = 0;
  if (lastTurn === null) cycle.fruitless += 1;
  cycle.afterTurn = lastTurn ?? FIRST_TURN;
  if (lastTurn === null && began === FIRST_TURN) return false;
  if (cycle.fruitless < 2) return true;
  cycle.fruitless = 0;
  return false;
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  await Promise.race([work, clock.sleep(ms, { signal: late.signal }).catch(() => undefined)]);
  late.abort();
}

import { clock, type Timer } from '../../clock.ts';
import type { FromChild, HealthReport } from '../../agent/os/supervision/messages.ts';
import {
  type Ability,
  afterQuestion,
  counts,
  judge,
  type Judgement,
  startFacts,
  type TrialFacts,
  type TrialLimits,
  unproved,
} from './judge.ts';

/** A release that has not proved what it must is asked again after this time. */
const CHECK_AGAIN_MS = 15_000;

export interface TrialRunParts {
  version: string;
  limits: TrialLimits;
  /** What the release before could do. */
  expected: readonly Ability[];
  isServed: () => Promise<boolean>;
  /** Asks the release what it can do. */
  askHealth: () => void;
  decide: (judgement: Exclude<Judgement, { is: 'open' | 'ask_server' }>) => void;
}

/** Follows a release on trial while it runs, and decides once. */
export class TrialRun {
  readonly #version: string;
  readonly #limits: TrialLimits;
  readonly #isServed: () => Promise<boolean>;
  readonly #askHealth: () => void;
  readonly #decide: TrialRunParts['decide'];
  readonly #timer: Timer;
  #facts: TrialFacts;
  #isAsking = false;
  #healthAskedAt = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(parts: TrialRunParts) {
    this.#version = parts.version;
    this.#limits = parts.limits;
    this.#isServed = parts.isServed;
    this.#askHealth = parts.askHealth;
    this.#decide = parts.decide;
    this.#facts = startFacts(clock.monotonic(), parts.expected);
    const everyMs = Math.max(10, Math.min(1000, parts.limits.firstHeartbeatMs / 10));
    this.#timer = clock.setInterval(() => this.#look(), everyMs);
  }

  /** @param checks  what it can be asked to prove; an older release that a pin names can be asked nothing */
  hello(version: string, checks: Extract<FromChild, { type: 'hello' }>['checks'] = []): void {
    const expected = this.#facts.expected.filter((each) => each === 'socket' || checks.includes(each));
    this.#facts = { ...this.#facts, version, expected };
    this.#look();
  }

  heartbeat(): void {
    if (!counts(this.#facts)) return;
    this.#facts = { ...this.#facts, inARow: this.#facts.inARow + 1 };
    this.#look();
  }

  connection({ isConnected, reachesServer }: { isConnected: boolean; reachesServer: boolean }): void {
    this.#facts = { ...this.#facts, isConnected };
    if (!reachesServer || !counts(this.#facts)) this.#facts = { ...this.#facts, inARow: 0 };
  }

  health(report: HealthReport): void {
    this.#facts = { ...this.#facts, health: report };
    this.#look();
  }

  stop(): void {
    this.#isOver = true;
    clock.clear(this.#timer);
  }

  #look(): void {
    if (this.#isOver) return;
    this.#checkHealth();
    if (this.#isAsking) return;
    const judgement = judge(this.#facts, this.#version, clock.monotonic(), this.#limits);
    if (judgement.is === 'ask_server') void this.#ask();
    else this.#end(judgement);
  }

  /** Before it is connected, a release may not have opened everything yet. */
  #checkHealth(): void {
    if (this.#facts.inARow === 0 || unproved(this.#facts).length === 0) return;
    const now = clock.monotonic();
    if (now - this.#healthAskedAt < CHECK_AGAIN_MS) return;
    this.#healthAskedAt = now;
    this.#askHealth();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    const isServed = await this.#isServed().catch(() => false);
    this.#isAsking = false;
    if (this.#isOver) return;
    // A heartbeat may have been acknowledged meanwhile.
    const judgement = judge(this.#facts, this.#version, clock.monotonic(), this.#limits);
    if (judgement.is !== 'ask_server') return this.#end(judgement);
    const after = afterQuestion(this.#facts, isServed, clock.monotonic(), this.#limits);
    this.#facts = after.facts;
    this.#end(after.judgement);
  }

  #end(judgement: Judgement): void {
    if (judgement.is === 'open' || judgement.is === 'ask_server') return;
    this.stop();
    this.#decide(judgement);
  }
}

import { clock, type Timer } from '../../clock.ts';
import {
  afterQuestion,
  judge,
  type Judgement,
  startFacts,
  type TrialFacts,
  type TrialLimits,
} from './judge.ts';

/** Follows a release on trial while it runs, and decides once. */
export class TrialRun {
  readonly #version: string;
  readonly #limits: TrialLimits;
  readonly #isServed: () => Promise<boolean>;
  readonly #decide: (judgement: Exclude<Judgement, { is: 'open' | 'ask_server' }>) => void;
  readonly #timer: Timer;
  #facts: TrialFacts = startFacts(clock.monotonic());
  #isAsking = false;
  #isOver = false;

  constructor(parts: {
    version: string;
    limits: TrialLimits;
    isServed: () => Promise<boolean>;
    decide: (judgement: Exclude<Judgement, { is: 'open' | 'ask_server' }>) => void;
  }) {
    this.#version = parts.version;
    this.#limits = parts.limits;
    this.#isServed = parts.isServed;
    this.#decide = parts.decide;
    const everyMs = Math.max(10, Math.min(1000, parts.limits.firstHeartbeatMs / 10));
    this.#timer = clock.setInterval(() => this.#look(), everyMs);
  }

  hello(version: string): void {
    this.#facts = { ...this.#facts, version };
    this.#look();
  }

  heartbeat(): void {
    this.#facts = { ...this.#facts, inARow: this.#facts.inARow + 1 };
    this.#look();
  }

  connection(reachesServer: boolean): void {
    if (!reachesServer) this.#facts = { ...this.#facts, inARow: 0 };
  }

  stop(): void {
    this.#isOver = true;
    clock.clear(this.#timer);
  }

  #look(): void {
    if (this.#isOver || this.#isAsking) return;
    const judgement = judge(this.#facts, this.#version, clock.monotonic(), this.#limits);
    if (judgement.is === 'ask_server') void this.#ask();
    else this.#end(judgement);
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

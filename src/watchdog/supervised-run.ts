import type { InstallRequest, ToChild, FromChild, HealthReport } from '../agent/os/supervision.ts';
import {
  AbilitiesBefore,
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
import type { WatchdogSettings } from './settings.ts';
import { WATCHDOG_VERSION } from './version.ts';
import { type ChildEnd, type ChildMessage, SupervisedChild } from './supervised-child.ts';
import { clock, type Timer } from '../clock.ts';
import { shortened } from '../protocol/index.ts';

/** Why a run of the agent, or of a watchdog on trial, has ended. The program has exited in every case. */
export type RunEnd =
  | { kind: 'stopped' }
  | { kind: 'ended'; end: ChildEnd }
  /** `works`: the checks that the agent had passed before it was stopped. */
  | { kind: 'install'; request: InstallRequest; works: readonly Ability[] }
  | { kind: 'trial_failed'; code: string; message: string; output?: readonly string[] }
  /** Only with `stopsWhenHealthy`. */
  | { kind: 'healthy' };

/** A program that was started, as its supervision needs it. */
export type StartedProgram = Pick<SupervisedChild, 'pid' | 'ended' | 'send' | 'stop' | 'kill'>;

export interface RunParts {
  command: readonly [string, ...string[]];
  /** Default: starts the command as a process. */
  start?: (onMessage: (message: ChildMessage) => void) => StartedProgram;
  settings: WatchdogSettings;
  programs: string;
  /** Ends the run cleanly. */
  signal: AbortSignal;
  trial?: {
    version: string;
    /** The checks that the former release has passed. */
    expected: readonly Ability[];
    isServed: () => Promise<boolean>;
    /** Called once; the run continues meanwhile. */
    healthy: () => Promise<void>;
    stopsWhenHealthy: boolean;
  };
  /** Whether a release may be installed now: a refusal, or `undefined`. */
  mayInstall: (request: InstallRequest) => Promise<{ code: string; message: string } | undefined>;
  on: {
    started: (pid: number) => void;
    hello: (version: string) => void;
    connection: (state: { isConnected: boolean; reachesServer: boolean }) => void;
    heartbeat: () => void;
  };
}

/** Starts a program and supervises it until it ends. */
export async function superviseOnce(parts: RunParts): Promise<RunEnd> {
  const { command, settings, programs, signal, trial, mayInstall, on } = parts;
  const { start = (onMessage) => new SupervisedChild(command, settings, onMessage) } = parts;
  let reason: RunEnd | undefined;
  /** Decisions in progress must be completed before the run ends. */
  let pending: Promise<void> = Promise.resolve();

  const welcome = (isOnTrial: boolean): ToChild => ({
    type: 'welcome',
    watchdogVersion: WATCHDOG_VERSION,
    programs,
    ...(isOnTrial ? { beatEveryMs: settings.beatEveryMs } : {}),
  });
  const endBecause = (why: RunEnd, act: 'stop' | 'kill') => {
    if (reason !== undefined) return;
    reason = why;
    if (act === 'kill') child.kill();
    else void child.stop();
  };
  const run =
    trial === undefined
      ? undefined
      : new TrialRun({
          version: trial.version,
          limits: settings,
          expected: trial.expected,
          isServed: trial.isServed,
          askHealth: () => child.send({ type: 'check' }),
          decide(judgement) {
            if (judgement.is === 'failed') {
              endBecause({ kind: 'trial_failed', code: judgement.code, message: judgement.message }, 'stop');
              return;
            }
            pending = trial.healthy().then(() => {
              if (trial.stopsWhenHealthy) endBecause({ kind: 'healthy' }, 'stop');
              else child.send(welcome(false));
            });
            // It is awaited below.
            pending.catch(() => endBecause({ kind: 'stopped' }, 'stop'));
          },
        });

  const before = new AbilitiesBefore(() => child.send({ type: 'check' }));
  const install = (request: InstallRequest) => {
    const { attemptId } = request;
    void mayInstall(request).then(
      async (refusal) => {
        const works = refusal === undefined ? await before.read() : [];
        if (reason !== undefined) return;
        child.send({ type: 'install_answer', attemptId, ...refusal });
        if (refusal === undefined) endBecause({ kind: 'install', request, works }, 'stop');
      },
      (error: unknown) => {
        child.send({
          type: 'install_answer',
          attemptId,
          code: 'FAILED',
          message: shortened(String(error), 500),
        });
      },
    );
  };
  const child = start((message) => {
    switch (message.type) {
      case 'hello':
        on.hello(message.version);
        before.hello(message.checks);
        run?.hello(message.version, message.checks);
        child.send(welcome(trial !== undefined));
        break;
      case 'connection':
        on.connection(message);
        before.connection(message.isConnected);
        run?.connection(message);
        break;
      case 'health':
        before.health(message);
        run?.health(message);
        break;
      case 'heartbeat':
        on.heartbeat();
        before.heartbeat();
        run?.heartbeat();
        break;
      case 'install':
        install(message);
    }
  });
  if (child.pid !== undefined) on.started(child.pid);
  const stop = () => endBecause({ kind: 'stopped' }, 'stop');
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();

  const end = await child.ended;
  run?.stop();
  signal.removeEventListener('abort', stop);
  await pending;
  // From here on, the program has ended, and no decision applies to it.
  reason ??= { kind: 'ended', end };
  return reason.kind === 'trial_failed' ? { ...reason, output: end.output } : reason;
}

/** A release that has not passed its checks is asked again after this time. */
const CHECK_AGAIN_MS = 15_000;

interface TrialRunParts {
  version: string;
  limits: TrialLimits;
  /** The checks that the former release has passed. */
  expected: readonly Ability[];
  isServed: () => Promise<boolean>;
  /** Requests the checks of the release. */
  askHealth: () => void;
  decide: (judgement: Exclude<Judgement, { is: 'open' | 'ask_server' }>) => void;
}

/** Supervises a release on trial, and decides once. */
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

  /** @param checks  the checks that it supports; an older pinned release may support none */
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

import type { InstallRequest, ToChild } from '../../agent/os/supervision/messages.ts';
import { AbilitiesBefore } from '../trial/abilities-before.ts';
import type { Ability } from '../trial/judge.ts';
import { TrialRun } from '../trial/trial-run.ts';
import type { WatchdogSettings } from '../settings.ts';
import { WATCHDOG_VERSION } from '../version.ts';
import { type ChildEnd, SupervisedChild } from './supervised-child.ts';

/** Why a run of the agent, or of a watchdog on trial, has ended. The program has ended in every case. */
export type RunEnd =
  | { kind: 'stopped' }
  | { kind: 'ended'; end: ChildEnd }
  /** `works`: what the agent could do before it was stopped. */
  | { kind: 'install'; request: InstallRequest; works: readonly Ability[] }
  | { kind: 'trial_failed'; code: string; message: string; output?: readonly string[] }
  /** Only where `stopsWhenHealthy`. */
  | { kind: 'healthy' };

export interface RunParts {
  command: readonly [string, ...string[]];
  settings: WatchdogSettings;
  programs: string;
  /** Ends the run in good order. */
  signal: AbortSignal;
  trial?: {
    version: string;
    /** What the release before could do. */
    expected: readonly Ability[];
    isServed: () => Promise<boolean>;
    /** Called once; the run goes on meanwhile. */
    healthy: () => Promise<void>;
    stopsWhenHealthy: boolean;
  };
  /** Whether a release may be installed now: a refusal, or nothing. */
  mayInstall: (request: InstallRequest) => Promise<{ code: string; message: string } | undefined>;
  on: {
    started: (pid: number) => void;
    hello: (version: string) => void;
    connection: (state: { isConnected: boolean; reachesServer: boolean }) => void;
    heartbeat: () => void;
  };
}

/** Starts a program and follows it to its end, whatever ends it. */
export async function superviseOnce(parts: RunParts): Promise<RunEnd> {
  const { command, settings, programs, signal, trial, mayInstall, on } = parts;
  let reason: RunEnd | undefined;
  /** Decisions that are being carried out must be finished before the run is over. */
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
          message: String(error).slice(0, 500),
        });
      },
    );
  };
  const child = new SupervisedChild(command, settings, (message) => {
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
  // Whatever is decided from here on is decided about a program that has ended.
  reason ??= { kind: 'ended', end };
  return reason.kind === 'trial_failed' ? { ...reason, output: end.output } : reason;
}

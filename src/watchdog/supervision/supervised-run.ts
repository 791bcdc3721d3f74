import type { InstallRequest, ToChild } from '../../agent/os/supervision/messages.ts';
import { TrialRun } from '../trial/trial-run.ts';
import type { WatchdogSettings } from '../settings.ts';
import { WATCHDOG_VERSION } from '../version.ts';
import { type ChildEnd, SupervisedChild } from './supervised-child.ts';

/** Why a run of the agent, or of a watchdog on trial, has ended. The program has ended in every case. */
export type RunEnd =
  | { kind: 'stopped' }
  | { kind: 'ended'; end: ChildEnd }
  | { kind: 'install'; request: InstallRequest }
  | { kind: 'trial_failed'; code: string; message: string }
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
          isServed: trial.isServed,
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

  const install = (request: InstallRequest) => {
    const { attemptId } = request;
    void mayInstall(request).then(
      (refusal) => {
        if (reason !== undefined) return;
        child.send({ type: 'install_answer', attemptId, ...refusal });
        if (refusal === undefined) endBecause({ kind: 'install', request }, 'stop');
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
        run?.hello(message.version);
        child.send(welcome(trial !== undefined));
        break;
      case 'connection':
        on.connection(message);
        run?.connection(message.reachesServer);
        break;
      case 'heartbeat':
        on.heartbeat();
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
  return reason ?? { kind: 'ended', end };
}

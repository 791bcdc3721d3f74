import { spawn, type ChildProcess } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { clock, type Timer } from '../../../clock.ts';
import { systemProgram } from './system-program.ts';

export interface GroupOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Aborting it ends the whole group in well under a second. */
  signal: AbortSignal;
  timeoutMs: number;
  /**
   * Records the process, so that a later agent can end it. On Linux and macOS the program starts only when this has
   * resolved, and not at all where it rejects.
   */
  onStart: (pid: number) => Promise<void>;
  onOutput: (stream: 'stdout' | 'stderr', bytes: Buffer) => void;
}

export interface GroupEnd {
  /** `null` where a signal ended it. */
  exitCode: number | null;
  /** Why the program was stopped, if it was. */
  cut: 'timed_out' | 'cancelled' | undefined;
}

const GRACE_MS = { timed_out: 2000, cancelled: 300 } as const;
/** How long descendants may keep the output open after the program itself has ended. */
const LINGER_MS = 1000;

/** A shell that becomes the program when it has read a line, and that exits if the agent ends before that. */
const GATE = 'read -r _ <&3 && exec 3<&- && exec "$@"';

/** Runs a program in its own process group, without input. Throws where it cannot be started. */
export async function runGroup(
  command: string,
  args: readonly string[],
  options: GroupOptions,
): Promise<GroupEnd> {
  const { cwd, env, signal, timeoutMs, onStart, onOutput } = options;
  await access(command, constants.X_OK).catch((error: unknown) => {
    throw notStarted(command, error);
  });
  const child = startGated(command, args, { cwd, env });
  child.stdout?.on('data', (bytes: Buffer) => onOutput('stdout', bytes));
  child.stderr?.on('data', (bytes: Buffer) => onOutput('stderr', bytes));

  return new Promise((resolve, reject) => {
    let startFailure: unknown;
    const opened =
      child.pid === undefined ? Promise.resolve() : onStart(child.pid).then(() => openGate(child));
    opened.catch((error: unknown) => {
      startFailure = error;
      signalGroup(child.pid, 'SIGKILL');
    });

    let cut: GroupEnd['cut'];
    let hasExited = false;
    let force: Timer | undefined;
    let linger: Timer | undefined;

    const end = (reason: 'timed_out' | 'cancelled') => {
      if (hasExited) return;
      // A cancellation during the grace period of a time-out shortens it.
      cut ??= reason;
      clock.clear(force);
      signalGroup(child.pid, 'SIGTERM');
      force = clock.setTimeout(() => signalGroup(child.pid, 'SIGKILL'), GRACE_MS[reason]);
    };
    const cancel = () => end('cancelled');
    const timeout = clock.setTimeout(() => end('timed_out'), timeoutMs);
    const release = () => {
      for (const timer of [timeout, force, linger]) clock.clear(timer);
      signal.removeEventListener('abort', cancel);
    };

    child.once('error', (error) => {
      // With a pid this is the failure of a signal to a process that has just ended.
      if (child.pid !== undefined) return;
      release();
      reject(notStarted(command, error));
    });
    child.once('exit', () => {
      hasExited = true;
      // Its children may have ignored the first signal. A stopped program must leave none behind.
      if (cut !== undefined && process.platform !== 'win32') signalGroup(child.pid, 'SIGKILL');
      linger = clock.setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
      }, LINGER_MS);
    });
    child.once('close', (exitCode) => {
      release();
      if (startFailure === undefined) resolve({ exitCode, cut });
      else reject(notStarted(command, startFailure));
    });
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
  });
}

export function signalGroup(pid: number | undefined, name: 'SIGINT' | 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return;
  if (process.platform === 'win32') {
    // Windows has no process groups and no signals. This ends the process and its descendants.
    spawn(systemProgram('taskkill'), ['/PID', String(pid), '/T', '/F'], {
      stdio: 'ignore',
      windowsHide: true,
    }).on('error', () => {});
    return;
  }
  try {
    process.kill(-pid, name);
  } catch {
    // The group has already ended.
  }
}

function startGated(
  command: string,
  args: readonly string[],
  options: { cwd: string; env: NodeJS.ProcessEnv },
): ChildProcess {
  if (process.platform === 'win32') {
    return spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true });
  }
  const child = spawn('/bin/sh', ['-c', GATE, 'sh', command, ...args], {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
  });
  // The shell may be killed before it reads.
  child.stdio[3]?.on('error', () => {});
  return child;
}

function openGate({ stdio }: ChildProcess): void {
  const gate = stdio[3];
  if (gate instanceof Writable) gate.end('\n');
}

function notStarted(command: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return new Error(`${command} could not be started: ${reason}`, { cause: error });
}

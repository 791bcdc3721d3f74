import { spawn, type ChildProcess } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { systemProgram } from './system-program.ts';

export interface GroupOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Ends the whole group, in well under a second. */
  signal: AbortSignal;
  timeoutMs: number;
  /**
   * Writes down that the process runs, so that a later agent can end it. On Linux and macOS the program begins only
   * when that is done, and not at all where it fails.
   */
  onStart: (pid: number) => Promise<void>;
  onOutput: (stream: 'stdout' | 'stderr', bytes: Buffer) => void;
}

export interface GroupEnd {
  /** `null` where a signal ended it. */
  exitCode: number | null;
  /** Why it was not let run to its end. */
  cut: 'timed_out' | 'cancelled' | undefined;
}

const GRACE_MS = { timed_out: 2000, cancelled: 300 } as const;
/** How long descendants may keep the output open after the program itself has ended. */
const LINGER_MS = 1000;

/** Becomes the program at the first line it reads, and ends where the agent ends before. */
const GATE = 'read -r _ <&3 && exec 3<&- && exec "$@"';

/** Runs a program in a process group of its own, with nothing to read. Throws where it cannot be started. */
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
    let unwritten: unknown;
    const opened =
      child.pid === undefined ? Promise.resolve() : onStart(child.pid).then(() => openGate(child));
    opened.catch((error: unknown) => {
      unwritten = error;
      signalGroup(child.pid, 'SIGKILL');
    });

    let cut: GroupEnd['cut'];
    let hasExited = false;
    let force: NodeJS.Timeout | undefined;
    let linger: NodeJS.Timeout | undefined;

    const end = (reason: 'timed_out' | 'cancelled') => {
      if (hasExited) return;
      // A cancellation while the time-out's grace runs shortens it.
      cut ??= reason;
      clearTimeout(force);
      signalGroup(child.pid, 'SIGTERM');
      force = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), GRACE_MS[reason]);
    };
    const cancel = () => end('cancelled');
    const timeout = setTimeout(() => end('timed_out'), timeoutMs);
    const release = () => {
      for (const timer of [timeout, force, linger]) clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    };

    child.once('error', (error) => {
      // Another kind of error is that of a signal to what has just ended.
      if (child.pid !== undefined) return;
      release();
      reject(notStarted(command, error));
    });
    child.once('exit', () => {
      hasExited = true;
      // Its children may have been deaf to the first signal; what was cut off leaves none behind.
      if (cut !== undefined && process.platform !== 'win32') signalGroup(child.pid, 'SIGKILL');
      linger = setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
      }, LINGER_MS);
    });
    child.once('close', (exitCode) => {
      release();
      if (unwritten === undefined) resolve({ exitCode, cut });
      else reject(notStarted(command, unwritten));
    });
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
  });
}

export function signalGroup(pid: number | undefined, name: 'SIGTERM' | 'SIGKILL'): void {
  if (pid === undefined) return;
  if (process.platform === 'win32') {
    // Windows has no process groups and no signals; this ends the tree of what it started.
    spawn(systemProgram('taskkill'), ['/PID', String(pid), '/T', '/F'], {
      stdio: 'ignore',
      windowsHide: true,
    }).on('error', () => {});
    return;
  }
  try {
    process.kill(-pid, name);
  } catch {
    // Nobody of the group is left.
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
  // It may have been ended before it reads.
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

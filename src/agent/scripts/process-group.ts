import { spawn, type ChildProcess } from 'node:child_process';
import { AgentError } from '../agent-error.ts';
import { systemProgram } from '../os/system-program.ts';

export interface GroupOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Ends the whole group, in well under a second. */
  signal: AbortSignal;
  timeoutMs: number;
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

/** Runs a program in a process group of its own, with nothing to read. Throws where it cannot be started. */
export function runGroup(command: string, args: readonly string[], options: GroupOptions): Promise<GroupEnd> {
  const { cwd, env, signal, timeoutMs, onOutput } = options;
  const child = spawn(command, args, {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
    windowsHide: true,
  });
  child.stdout.on('data', (bytes: Buffer) => onOutput('stdout', bytes));
  child.stderr.on('data', (bytes: Buffer) => onOutput('stderr', bytes));

  return new Promise((resolve, reject) => {
    let cut: GroupEnd['cut'];
    let hasExited = false;
    let force: NodeJS.Timeout | undefined;
    let linger: NodeJS.Timeout | undefined;

    const end = (reason: 'timed_out' | 'cancelled') => {
      if (hasExited) return;
      // A cancellation while the time-out's grace runs shortens it.
      cut ??= reason;
      clearTimeout(force);
      signalGroup(child, 'SIGTERM');
      force = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS[reason]);
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
      reject(new AgentError('FAILED', `${command} could not be started: ${error.message}`));
    });
    child.once('exit', () => {
      hasExited = true;
      // Its children may have been deaf to the first signal; what was cut off leaves none behind.
      if (cut !== undefined && process.platform !== 'win32') signalGroup(child, 'SIGKILL');
      linger = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, LINGER_MS);
    });
    child.once('close', (exitCode) => {
      release();
      resolve({ exitCode, cut });
    });
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
  });
}

function signalGroup({ pid }: ChildProcess, name: 'SIGTERM' | 'SIGKILL'): void {
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

import { spawn, type ChildProcess } from 'node:child_process';
import { access, constants, stat, readFile, readdir } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { clock, type Timer } from '../../clock.ts';
import { systemProgram, findProgram, runSystemProgram } from './child-process.ts';

interface GroupOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Aborting it ends the whole group in well under a second. */
  signal: AbortSignal;
  timeoutMs: number;
  /**
   * Records the process, so that a later agent can end it. On Linux and macOS the program starts only when this has
   * resolved, and not at all if it rejects.
   */
  onStart: (pid: number) => Promise<void>;
  onOutput: (stream: 'stdout' | 'stderr', bytes: Buffer) => void;
}

interface GroupEnd {
  /** `null` if a signal ended it. */
  exitCode: number | null;
  /** Why the program was stopped, if it was. */
  cut: 'timed_out' | 'cancelled' | undefined;
}

const GRACE_MS = { timed_out: 2000, cancelled: 300 } as const;
/** How long descendants may keep the output open after the program itself has ended. */
const LINGER_MS = 1000;

/** A shell that executes the program once it has read a line, and exits if the agent ends before. */
const GATE = 'read -r _ <&3 && exec 3<&- && exec "$@"';

/** Runs a program in its own process group, without input. Throws if it cannot be started. */
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
      // A cancellation during the grace period of a timeout shortens it.
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
      // With a pid, this is a signal that failed because the process had just ended.
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

/**
 * Prefix of a command line that runs the command in its own systemd scope, so that it outlives the agent: systemd ends
 * everything that a service has started when the service is stopped.
 */
export async function ownScope(name: string): Promise<string[]> {
  const isSystemd = await stat('/run/systemd/system').catch(() => undefined);
  const program = isSystemd === undefined ? undefined : await findProgram(['systemd-run']);
  if (program === undefined) return [];
  return [program, '--scope', '--quiet', '--collect', `--unit=${name}-${clock.now()}`, '--'];
}

const LEFTOVER_GRACE_MS = 300;
const KILLED_MS = 2000;
const POLL_MS = 20;

/** The signal by which a program ends in good order, and how long it may take for that. */
interface FirstSignal {
  signal: 'SIGINT' | 'SIGTERM';
  ms: number;
}

/**
 * Ends the process group that an earlier agent has left running. A process that has the same number but was started at
 * another time is left alone. Returns whether the process has ended.
 */
export async function endLeftover(
  leftover: KnownProcess,
  first: FirstSignal = { signal: 'SIGTERM', ms: LEFTOVER_GRACE_MS },
): Promise<boolean> {
  for (const [signal, ms] of [
    [first.signal, first.ms],
    ['SIGKILL', KILLED_MS],
  ] as const) {
    // Without a start time, another process may have this number now.
    if (leftover.mark === '' || !(await isRunning(leftover))) return true;
    signalGroup(leftover.pid, signal);
    const until = clock.monotonic() + ms;
    while (clock.monotonic() < until && (await isRunning(leftover))) await clock.sleep(POLL_MS);
    // Its children may have ignored the first signal.
    if (!(await isRunning(leftover))) signalGroup(leftover.pid, 'SIGKILL');
  }
  return !(await isRunning(leftover));
}

/** Identifies a process, also against a later one with the same number. */
export interface KnownProcess {
  pid: number;
  /** The start time as the system formats it; empty if it is unknown. */
  mark: string;
}

/** When the process was started; empty if it does not exist or the system does not report it. */
export async function processMark(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return await linuxMark(pid);
    if (process.platform === 'win32') {
      const command = `(Get-Process -Id ${pid}).StartTime.ToFileTimeUtc()`;
      return (
        await runSystemProgram('powershell', ['-NoProfile', '-NonInteractive', '-Command', command])
      ).trim();
    }
    return (await runSystemProgram('ps', ['-o', 'lstart=', '-p', String(pid)])).trim();
  } catch {
    return '';
  }
}

/** Field 22 counts ticks since the machine was started, so the mark also holds the id of that start. */
async function linuxMark(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  // The name of the program is in brackets and may itself hold brackets and spaces.
  const [state = '', ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A zombie has ended; only its parent has not collected its exit code yet.
  return state === 'Z' || state === 'X' ? '' : `${boot.trim().slice(0, 8)}-${fields[18] ?? ''}`;
}

export async function isRunning({ pid, mark }: KnownProcess): Promise<boolean> {
  return isAlive(pid) && (await processMark(pid)) === mark;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Ends the processes of a session at once, on Linux also those in process groups of their own. */
export async function killSession(leader: number): Promise<void> {
  signalGroup(leader, 'SIGKILL');
  if (process.platform !== 'linux') return;
  const names = await readdir('/proc').catch(() => []);
  for (const name of names.filter((each) => /^\d+$/.test(each))) {
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    const [, , , session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (session !== String(leader)) continue;
    try {
      process.kill(Number(name), 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Linux processes whose command line passes a test, including those without a recorded start time. */
export async function findByCommand(matches: (words: readonly string[]) => boolean): Promise<KnownProcess[]> {
  const names = await readdir('/proc').catch(() => []);
  const found: KnownProcess[] = [];
  for (const name of names.filter((each) => /^\d+$/.test(each))) {
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '');
    if (command === '' || !matches(command.split('\0').slice(0, -1))) continue;
    const process = { pid: Number(name), mark: await processMark(Number(name)) };
    if (process.mark !== '') found.push(process);
  }
  return found;
}

import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { promisify } from 'node:util';
import { StringDecoder } from 'node:string_decoder';
import { clock, type Timer } from '../../clock.ts';

/**
 * The full path of a system program. Windows searches the current folder first for a bare name, so anyone who can write
 * there could replace the program.
 */
export function systemProgram(name: string, platform: NodeJS.Platform = process.platform): string {
  if (platform !== 'win32') return name;
  const root = process.env['SystemRoot'] ?? String.raw`C:\Windows`;
  const folder = name === 'powershell' ? String.raw`System32\WindowsPowerShell\v1.0` : 'System32';
  return path.win32.join(root, folder, `${name}.exe`);
}

/** Runs a system program and returns its output. A port, for tests of other systems. */
export type RunSystemProgram = (
  name: string,
  args: readonly string[],
  env?: Record<string, string>,
) => Promise<string>;

const PROGRAM_MS = 30_000;

export const runSystemProgram: RunSystemProgram = async (name, args, env = {}) => {
  const { stdout } = await promisify(execFile)(systemProgram(name), [...args], {
    timeout: PROGRAM_MS,
    windowsHide: true,
    maxBuffer: 1_000_000,
    env: { ...process.env, LC_ALL: 'C', ...env },
  });
  return stdout;
};

/** The path of the first of these programs that is on the search path. */
export async function findProgram(
  names: readonly string[],
  searchPath: string = process.env['PATH'] ?? '',
): Promise<string | undefined> {
  const ending = process.platform === 'win32' ? '.exe' : '';
  for (const name of names) {
    // Relative folders are skipped, because they depend on where the agent was started.
    for (const folder of searchPath.split(path.delimiter).filter((entry) => path.isAbsolute(entry))) {
      const file = path.join(folder, name + ending);
      // On Windows, `WindowsApps` holds a placeholder for Python that only opens the store.
      if (!file.includes('WindowsApps') && (await isExecutable(file))) return file;
    }
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Child processes with limits on time and output. Cancelling one kills its whole process group. */

interface ChildOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
  /** Longer lines are cut to this length. */
  maxLineLength?: number;
  env?: NodeJS.ProcessEnv;
  /** An open file that the child reads as its standard input. */
  stdin?: number;
}

const STDERR_MAX = 4_000;
const KILL_GRACE_MS = 300;

interface RunningChild {
  child: ChildProcess;
  stderr(): string;
  ended: Promise<{ code: number | null; failure: Error | undefined }>;
  kill(): void;
}

function start(command: string, args: readonly string[], options: ChildOptions): RunningChild {
  // Windows has no process groups, so only the child is killed there. The programs that are used start no children.
  const grouped = process.platform !== 'win32';
  const child = spawn(command, args, {
    stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
    detached: grouped,
    windowsHide: true,
    env: options.env ?? { ...process.env, LC_ALL: 'C', SYSTEMD_COLORS: '0' },
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8');
  child.stderr?.on('data', (text: string) => {
    if (stderr.length < STDERR_MAX) stderr += text.slice(0, STDERR_MAX - stderr.length);
  });

  const send = (signal: NodeJS.Signals) => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      if (grouped) process.kill(-child.pid, signal);
      else child.kill(signal);
    } catch {
      // The process ended between the check and the signal.
    }
  };
  let force: Timer | undefined;
  let over = false;
  const kill = () => {
    if (over) return;
    send('SIGTERM');
    force ??= clock.setTimeout(() => send('SIGKILL'), KILL_GRACE_MS);
  };
  const timeout = options.timeoutMs === undefined ? undefined : clock.setTimeout(kill, options.timeoutMs);
  options.signal?.addEventListener('abort', kill, { once: true });
  if (options.signal?.aborted === true) kill();

  const ended = new Promise<{ code: number | null; failure: Error | undefined }>((resolve) => {
    let failure: Error | undefined;
    child.once('error', (error) => {
      failure = error;
      if (child.pid === undefined) finish(null);
    });
    child.once('close', (code) => finish(code));
    function finish(code: number | null) {
      over = true;
      clock.clear(timeout);
      clock.clear(force);
      options.signal?.removeEventListener('abort', kill);
      resolve({ code, failure });
    }
  });
  return { child, stderr: () => stderr, ended, kill };
}

/** Streams the standard output of the child. Leaving the loop, or aborting, kills the child. */
export async function* streamBytes(
  command: string,
  args: readonly string[],
  options: ChildOptions = {},
): AsyncGenerator<Buffer, void> {
  const running = start(command, args, options);
  let complete = false;
  try {
    const stdout = running.child.stdout;
    if (stdout !== null) {
      for await (const chunk of stdout) yield chunk as Buffer;
    }
    complete = true;
  } catch (error) {
    // A command that could not start closes its output early. Its `error` event has the reason.
    const { code, failure } = await running.ended;
    if (failure !== undefined) check(command, code, failure, '');
    throw error;
  } finally {
    if (!complete) running.kill();
    const { code, failure } = await running.ended;
    if (complete && options.signal?.aborted !== true) check(command, code, failure, running.stderr());
  }
}

/** The same as text. */
export async function* streamText(
  command: string,
  args: readonly string[],
  options: ChildOptions & { decode?: (first: Buffer) => BufferEncoding } = {},
): AsyncGenerator<string, void> {
  let decoder: StringDecoder | undefined;
  for await (const bytes of streamBytes(command, args, options)) {
    decoder ??= new StringDecoder(options.decode?.(bytes) ?? 'utf8');
    yield decoder.write(bytes);
  }
}

function check(command: string, code: number | null, failure: Error | undefined, stderr: string): void {
  if (failure !== undefined) {
    throw new Error(`${command} could not be started: ${failure.message}`);
  }
  if (code !== 0) {
    const detail = stderr.trim().split('\n').at(-1) ?? '';
    throw new ChildFailure(command, code, detail);
  }
}

/** The child ended with a code other than 0, or by a signal (`null`). */
export class ChildFailure extends Error {
  readonly code: number | null;
  /** The last line that it wrote to its error output. */
  readonly detail: string;

  constructor(command: string, code: number | null, detail: string) {
    super(`${command} ended with ${code ?? 'a signal'}${detail && `: ${detail}`}`);
    this.name = 'ChildFailure';
    this.code = code;
    this.detail = detail;
  }
}

/** The same in lines. */
export async function* streamLines(
  command: string,
  args: readonly string[],
  options: ChildOptions = {},
): AsyncGenerator<string, void> {
  const max = options.maxLineLength ?? 1_000_000;
  let rest = '';
  for await (const text of streamText(command, args, options)) {
    const lines = text.split('\n');
    const last = lines.pop() ?? '';
    for (const line of lines) {
      const whole = rest + line;
      rest = '';
      yield whole.length > max ? whole.slice(0, max) : whole;
    }
    if (rest.length < max) rest += last;
  }
  if (rest !== '') yield rest;
}

/** The whole standard output. Throws if it is longer than `maxLength` characters. */
export async function readOutput(
  command: string,
  args: readonly string[],
  options: ChildOptions & { maxLength?: number; decode?: (first: Buffer) => BufferEncoding } = {},
): Promise<string> {
  const max = options.maxLength ?? 4_000_000;
  const parts: string[] = [];
  let length = 0;
  for await (const text of streamText(command, args, { timeoutMs: 10_000, ...options })) {
    length += text.length;
    if (length > max) throw new Error(`${command} printed more than ${max} characters.`);
    parts.push(text);
  }
  return parts.join('');
}

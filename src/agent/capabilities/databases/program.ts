import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { clock, type Timer } from '../../../clock.ts';
import { signalGroup } from '../../os/processes/process-group.ts';
import { databaseError } from './database-error.ts';

/** Programs of a database, as the operating system user that it belongs to. */

export interface SystemUser {
  uid: number;
  gid: number;
}

export interface ProgramOrder {
  file: string;
  args: readonly string[];
  user: SystemUser;
  env?: Record<string, string>;
  cwd?: string;
  /** A folder that is held open, and that the program finds as `GIVEN_FOLDER`. */
  folder?: number;
  hasInput?: boolean;
  signal: AbortSignal;
}

export const GIVEN_FOLDER = '/proc/self/fd/3';

export interface ProgramEnd {
  code: number | null;
  /** The last part of what it has written there. */
  stderr: string;
}

export interface RunningProgram {
  pid: number | undefined;
  stdout: Readable;
  /** Of a program without input: one that nobody reads. */
  stdin: Writable;
  /** What it has written so far, its last part. */
  messages: () => string;
  ended: Promise<ProgramEnd>;
  stop: (signal?: 'SIGINT' | 'SIGTERM') => void;
}

const STDERR_MAX = 64 * 1024;
const KILL_AFTER_MS = 5000;

/** Throws `DATABASE_DENIED` where this process may not become the user. */
export function startProgram(order: ProgramOrder): RunningProgram {
  const { file, args, user, env = {}, cwd = '/', folder, hasInput = false, signal } = order;
  const own = process.getuid?.();
  if (own !== user.uid && own !== 0) {
    throw databaseError(
      'DATABASE_DENIED',
      `The agent runs as user ${own}, and only root or user ${user.uid} can work with this database.`,
    );
  }
  const child = spawn(file, args, {
    stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(folder === undefined ? [] : [folder])],
    detached: true,
    cwd,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', ...env },
    ...(own === user.uid ? {} : { uid: user.uid, gid: user.gid }),
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_MAX);
  });
  let hasEnded = false;
  let force: Timer | undefined;
  const stop = (first: 'SIGINT' | 'SIGTERM' = 'SIGTERM') => {
    if (hasEnded) return;
    signalGroup(child.pid, first);
    force ??= clock.setTimeout(() => signalGroup(child.pid, 'SIGKILL'), KILL_AFTER_MS);
  };
  const cancel = () => stop();
  signal.addEventListener('abort', cancel, { once: true });
  const ended = new Promise<ProgramEnd>((resolve) => {
    const finish = (code: number | null, message = '') => {
      hasEnded = true;
      clock.clear(force);
      signal.removeEventListener('abort', cancel);
      resolve({ code, stderr: stderr + message });
    };
    child.once('error', (error) => {
      if (child.pid === undefined) finish(null, error.message);
    });
    child.once('close', (code) => finish(code));
  });
  if (signal.aborted) stop();
  const { stdout, stdin } = child;
  if (stdout === null) throw new Error('the program has no output');
  stdin?.on('error', () => {});
  return { pid: child.pid, stdout, stdin: stdin as Writable, messages: () => stderr, ended, stop };
}

const OUTPUT_MAX = 8 * 1024 * 1024;

/** Runs a program to its end, and returns what it has printed. */
export async function runProgram(order: ProgramOrder): Promise<ProgramEnd & { stdout: string }> {
  const program = startProgram(order);
  const parts: Buffer[] = [];
  let length = 0;
  program.stdout.on('data', (bytes: Buffer) => {
    length += bytes.length;
    if (length <= OUTPUT_MAX) parts.push(bytes);
    else program.stop();
  });
  const end = await program.ended;
  order.signal.throwIfAborted();
  return { ...end, stdout: Buffer.concat(parts).toString('utf8') };
}

/** The last complaint in an error output, for a person. Hints come after it. */
export function lastLine(text: string): string {
  const lines = text.trim().split('\n');
  return (lines.findLast((line) => /ERROR|FATAL|PANIC|error:/.test(line)) ?? lines.at(-1) ?? '').slice(
    0,
    400,
  );
}

import { spawn } from 'node:child_process';
import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { clock, type Timer } from '../../../clock.ts';
import { AgentError } from '../../core/agent-error.ts';
import { readOutput } from '../../os/child-process.ts';
import { signalGroup } from '../../os/process-group.ts';

/** Runs programs of a database as the operating system user that owns it. */

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
  /** An open folder that the program reaches as `GIVEN_FOLDER`. */
  folder?: number;
  hasInput?: boolean;
  signal: AbortSignal;
}

export const GIVEN_FOLDER = '/proc/self/fd/3';

export interface ProgramEnd {
  code: number | null;
  /** The last part of its error output. */
  stderr: string;
}

export interface RunningProgram {
  pid: number | undefined;
  stdout: Readable;
  /** Ignore it if the program reads no input. */
  stdin: Writable;
  /** The last part of its error output so far. */
  messages: () => string;
  ended: Promise<ProgramEnd>;
  stop: (signal?: 'SIGINT' | 'SIGTERM') => void;
}

const STDERR_MAX = 64 * 1024;
const KILL_AFTER_MS = 5000;

/** Throws `DATABASE_DENIED` if this process may not become the user. */
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

/** Runs a program to its end, and returns its output. */
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

/** The last error in the error output, as a message for people. Hints follow it. */
export function lastLine(text: string): string {
  const lines = text.trim().split('\n');
  return (lines.findLast((line) => /ERROR|FATAL|PANIC|error:/.test(line)) ?? lines.at(-1) ?? '').slice(
    0,
    400,
  );
}

/** Codes of failed database backups and restores. The server and the documentation use them. */
type DatabaseCode =
  | 'DATABASE_NOT_FOUND'
  | 'DATABASE_DENIED'
  | 'DATABASE_FAILED'
  | 'DATABASE_TOOL_MISSING'
  | 'DATABASE_UNSUPPORTED'
  | 'CHAIN_BROKEN'
  | 'SPOOL_FULL'
  | 'POINT_NOT_REACHED'
  | 'BACKUP_DAMAGED';

export const databaseError = (code: DatabaseCode, message: string) => new AgentError(code, message);

export const toolMissing = (program: string, what: string) =>
  databaseError(
    'DATABASE_TOOL_MISSING',
    `The program ${program} is not installed on this device. It belongs to ${what}.`,
  );

/** Database servers that run on this machine, found by the process list of Linux. */

interface ServerProcess {
  pid: number;
  program: string;
  folder: string;
  uid: number;
  gid: number;
}

const DELETED = / \(deleted\)$/;

/** Processes whose program has one of these names, without the children that they have forked. */
export async function serverProcesses(names: ReadonlySet<string>): Promise<ServerProcess[]> {
  if (process.platform !== 'linux') return [];
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: (ServerProcess & { parent: number })[] = [];
  for (const pid of pids) {
    const one = await readProcess(pid, names).catch(() => undefined);
    if (one !== undefined) found.push(one);
  }
  const all = new Set(found.map(({ pid }) => pid));
  return found.filter(({ parent }) => !all.has(parent));
}

/** `undefined` for other programs. Rejects if the process has ended or cannot be read. */
async function readProcess(pid: number, names: ReadonlySet<string>) {
  // An upgrade replaces the program of a server that keeps running.
  const program = (await readlink(`/proc/${pid}/exe`)).replace(DELETED, '');
  if (!names.has(path.basename(program))) return undefined;
  const folder = await readlink(`/proc/${pid}/cwd`);
  const { uid, gid } = await stat(`/proc/${pid}`);
  const line = await readFile(`/proc/${pid}/stat`, 'latin1');
  // The name of the program is in parentheses, and may contain parentheses.
  const parent = Number(line.slice(line.lastIndexOf(')') + 2).split(' ')[1]);
  return { pid, program, folder, uid, gid, parent };
}

/** The Unix sockets that a process listens on. */
export async function listeningSockets(pid: number): Promise<string[]> {
  const handles = await readdir(`/proc/${pid}/fd`);
  const inodes = new Set<string>();
  for (const handle of handles) {
    const target = await readlink(`/proc/${pid}/fd/${handle}`).catch(() => '');
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  const lines = (await readFile('/proc/net/unix', 'utf8')).split('\n').slice(1);
  return lines.flatMap((line) => {
    // Num RefCount Protocol Flags Type St Inode Path. The flags 00010000 mean that the socket listens.
    const [, flags, , , inode, file] = /^\S+ \S+ \S+ (\S+) (\S+) (\S+) +(\d+) (.+)$/.exec(line) ?? [];
    return flags === '00010000' && inode !== undefined && inodes.has(inode) && file?.startsWith('/') === true
      ? [file]
      : [];
  });
}

/** The name and the home of a user; `undefined` if the system has no such user. */
export async function userOf(uid: number): Promise<{ name: string; home: string } | undefined> {
  const line = await readOutput('getent', ['passwd', String(uid)]).catch(() => '');
  const [name = '', , , , , home = '/'] = line.trimEnd().split(':');
  return name === '' ? undefined : { name, home };
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, type FileHandle, open, readFile, readlink } from 'node:fs/promises';
import { join, basename } from 'node:path';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import { type Account, EmbeddedPostgresError, readIfThere, type Binaries, program } from './installation.ts';

/** The environment of Postgres programs: nothing of ours, so that no PG* or LD_* setting changes what they do. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

export async function run(
  command: string,
  args: string[],
  account?: Account,
): Promise<{ code: number | string; output: string }> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(command, args, {
      ...account,
      cwd: workingDir,
      env: cleanEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      windowsHide: true,
    });
    const collect = (chunk: Buffer): void => {
      output += chunk.toString('utf8');
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.once('error', (error) => resolve({ code: 'error', output: error.message }));
    child.once('close', (code, signal) => resolve({ code: code ?? signal ?? 'unknown', output }));
  });
}

// Ours can be a folder that the other user may not enter.
const workingDir = process.platform === 'win32' ? undefined : '/';

export function lastLines(text: string, count = 5): string {
  const lines = text.split('\n').map((line) => line.trim());
  const last = lines.filter((line) => line !== '').slice(-count);
  return last.length === 0 ? 'it wrote nothing' : last.join(' | ');
}

/** A zombie has ended, but its pid still answers signals until its parent, or init, has taken note. */
export async function processState(pid: number): Promise<'gone' | 'zombie' | 'alive'> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'gone';
  }
  if (process.platform === 'linux') {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    if (stat === undefined) return 'gone';
    const state = stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
    return state === 'Z' || state === 'X' ? 'zombie' : 'alive';
  }
  if (process.platform === 'win32') return 'alive';
  const { output } = await run('/bin/ps', ['-o', 'stat=', '-p', String(pid)]);
  return output.trim().startsWith('Z') ? 'zombie' : 'alive';
}

/** Whether the pid is the Postgres of this cluster, and not another process that has been given its old number. */
async function isPostmasterOf(pid: number, clusterDir: string): Promise<boolean> {
  if (process.platform === 'win32') return true;
  if (process.platform === 'linux') {
    // A postmaster works in its data folder. Another user's process hides its folder, and so can not be ours.
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return cwd === clusterDir && basename(command.split('\0')[0] ?? '') === 'postgres';
  }
  const { output } = await run('/bin/ps', ['-o', 'command=', '-p', String(pid)]);
  return output.includes('postgres') && output.includes(clusterDir);
}

const zombiePatienceMs = 3000;
const portPatienceMs = 30_000;
const fastShutdownMs = 15_000;
const immediateShutdownMs = 10_000;

/**
 * The Postgres that runs on this cluster. Waits for a dead one that its parent has not yet taken note of.
 * @param disowns  whether a pid file that keeps another Postgres from starting gets this process's pid. For the process
 *   that starts it only: the file may be that of a Postgres that another process is starting.
 */
export async function runningPostmaster(
  clusterDir: string,
  disowns: boolean,
): Promise<{ pid: number; port: number } | undefined> {
  const begun = clock.monotonic();
  for (;;) {
    const lines = (await readIfThere(join(clusterDir, 'postmaster.pid')))?.split('\n');
    if (lines === undefined) return undefined;
    const waited = clock.monotonic() - begun;
    if (lines.join('') === '') {
      // Postgres makes it before it writes its pid, and refuses to start beside one that a killed start has left empty.
      if (waited > zombiePatienceMs) {
        if (disowns) await disownPidFile(clusterDir, lines);
        return undefined;
      }
      await clock.sleep(100);
      continue;
    }
    const pid = Number(lines[0]);
    const port = Number(lines[3]);
    const state = pid > 0 ? await processState(pid) : 'gone';
    if (state === 'gone') return undefined;
    const ours = state === 'alive' && (await isPostmasterOf(pid, clusterDir));
    if (ours && port > 0) return { pid, port };
    // In a container whose pid 1 reaps no children, a zombie stays for ever.
    if (!ours && (state === 'alive' || waited > zombiePatienceMs)) {
      if (disowns) await disownPidFile(clusterDir, lines);
      return undefined;
    }
    if (waited > portPatienceMs) {
      throw new EmbeddedPostgresError(
        'start_failed',
        `The Postgres of ${clusterDir} (pid ${pid}) is starting and names no port. Look into server.log in that folder, or end that process.`,
      );
    }
    await clock.sleep(100);
  }
}

/**
 * The state that the server writes into the cluster: starting, ready, stopping. Undefined: none, or another server's.
 */
export async function postmasterStatus(server: {
  clusterDir: string;
  pid: number;
}): Promise<string | undefined> {
  const lines = (await readIfThere(join(server.clusterDir, 'postmaster.pid')))?.split('\n') ?? [];
  return Number(lines[0]) === server.pid ? lines[7]?.trim() : undefined;
}

// Postgres does not start while the pid in this file is alive, whatever process has it by now; only its own parent's,
// ours, does not count. Rather that than removing the file: its check for shared memory still in use stays in force.
async function disownPidFile(clusterDir: string, lines: string[]): Promise<void> {
  const file = await openInCluster(clusterDir, 'postmaster.pid', constants.O_RDWR);
  try {
    // Another Postgres makes a file of its own. If this is it, it stays.
    if ((await file.readFile('utf8')) !== lines.join('\n')) return;
    const content = Buffer.from([String(process.pid), ...lines.slice(1)].join('\n'));
    // Never empty, wherever this is killed.
    await file.write(content, 0, content.length, 0);
    await file.truncate(content.length);
  } finally {
    await file.close();
  }
}

interface Launch {
  clusterDir: string;
  binaries: Binaries;
  account: Account | undefined;
  port: number;
  durable: boolean;
}

export interface Launched {
  pid: number;
  /** Settles when the process ends, with how it ended. */
  ended: Promise<string>;
  hasEnded(): boolean;
}

/** Starts a Postgres that belongs to no terminal and outlives us, however we end. */
export async function launch(wanted: Launch): Promise<Launched> {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_APPEND } = constants;
  const log = await openInCluster(wanted.clusterDir, logName, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
  try {
    if (wanted.account !== undefined) await log.chown(wanted.account.uid, wanted.account.gid);
    const child = spawn(join(wanted.binaries.dir, program('postgres')), settings(wanted), {
      ...wanted.account,
      cwd: workingDir,
      env: cleanEnvironment(),
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      windowsHide: true,
    });
    await once(child, 'spawn');
    let over = false;
    const ended = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => {
        over = true;
        resolve(code === null ? `signal ${signal ?? 'unknown'}` : `exit code ${code}`);
      });
    });
    child.unref();
    return { pid: child.pid ?? 0, ended, hasEnded: () => over };
  } finally {
    await log.close();
  }
}

const logName = 'server.log';

function settings({ clusterDir, port, durable }: Launch): string[] {
  const values: Record<string, string | number> = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 200,
    shared_buffers: '64MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    cluster_name: 'muster',
    logging_collector: 'off',
    // Statements and the details of errors hold customers' data, which has no place in a log file.
    log_min_error_statement: 'panic',
    log_error_verbosity: 'terse',
    ...(durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  return ['-D', clusterDir, ...Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

// The cluster belongs to another user than root, who must not lead root to some other file by a link.
async function openInCluster(clusterDir: string, name: string, flags: number): Promise<FileHandle> {
  return open(join(clusterDir, name), flags | (constants.O_NOFOLLOW ?? 0), 0o600);
}

export async function readLog(clusterDir: string): Promise<string> {
  return readFile(join(clusterDir, logName), 'utf8').catch(() => '');
}

/** Disconnects everyone and waits until the process is gone. */
export async function shutDown(
  server: { pid: number; clusterDir: string; binaries: Binaries; hasEnded?: () => boolean },
  log: Logger,
): Promise<void> {
  const { pid, clusterDir, hasEnded } = server;
  const begun = clock.monotonic();
  // A child of ours is gone when we have taken note of its end; before that its pid is still there as a zombie.
  const gone = async (): Promise<boolean> =>
    hasEnded?.() ?? ((await processState(pid)) !== 'alive' || !(await isPostmasterOf(pid, clusterDir)));
  if (process.platform === 'win32') {
    // A signal would be a kill there; only pg_ctl knows how to ask.
    const pgCtl = join(server.binaries.dir, program('pg_ctl'));
    await run(pgCtl, ['stop', '-D', clusterDir, '-m', 'fast', '-w', '-t', '15']);
    return;
  }
  for (const [signal, patience] of [
    ['SIGINT', fastShutdownMs],
    ['SIGQUIT', immediateShutdownMs],
  ] as const) {
    if (await gone()) return;
    process.kill(pid, signal);
    const deadline = clock.monotonic() + patience;
    while (clock.monotonic() < deadline) {
      if (await gone()) {
        log.info({ clusterDir, signal, ms: Math.round(clock.monotonic() - begun) }, 'postgres stopped');
        return;
      }
      await clock.sleep(20);
    }
    log.warn({ clusterDir, pid, signal }, 'postgres slow to stop');
  }
  const lines = lastLines(await readLog(clusterDir));
  throw new EmbeddedPostgresError(
    'start_failed',
    `The Postgres of ${clusterDir} (pid ${pid}) does not stop: ${lines}`,
  );
}

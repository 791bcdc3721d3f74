import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';
import { startedByRoot, unprivilegedAccount } from '../../src/platform/db/embedded/installation.ts';
import { eventually } from './eventually.ts';
import { lastingPort } from './lasting-port.ts';
import { skipWithout } from './skip-without.ts';

/** A real PgBouncer of the test's own, in front of the Postgres of a test database. */
export interface TestPooler {
  /** The address of the database through the pooler. */
  through(url: string): string;
  /** Its console for figures, as any of the roles. */
  consoleUrl: string;
  stop(): Promise<void>;
}

export interface PoolerOptions {
  mode: 'transaction' | 'session';
  /** As operators do whose clients send settings that the pooler does not know. */
  ignoresSettings?: boolean;
  /** Sessions of Postgres for each role and database (default 8). */
  poolSize?: number;
  /** Connections that it takes (default 200). */
  clientsMax?: number;
}

/** Skips the test where PgBouncer is not installed, and fails there in CI. @param urls  of the roles that use it */
export function startPooler(
  test: Context,
  urls: readonly string[],
  options: PoolerOptions,
): Promise<TestPooler> {
  skipWithout(test, spawnSync('pgbouncer', ['--version']).status === 0, 'pgbouncer');
  return runPooler(urls, options);
}

/** @param urls  of the roles that use it */
export async function runPooler(
  urls: readonly string[],
  { mode, ignoresSettings = false, poolSize = 8, clientsMax = 200 }: PoolerOptions,
): Promise<TestPooler> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-pgbouncer-'));
  const port = await lastingPort();
  const [first = ''] = urls;
  const { hostname, port: postgresPort } = new URL(first);
  const users = new Map(urls.map((url) => [new URL(url).username, new URL(url).password]));
  await writeFile(
    path.join(folder, 'users'),
    [...users].map(([name, password]) => `"${name}" "${decodeURIComponent(password)}"\n`).join(''),
  );
  const settings = [
    '[databases]',
    `* = host=${hostname} port=${postgresPort}`,
    '[pgbouncer]',
    `listen_addr = 127.0.0.1`,
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = plain',
    `auth_file = ${path.join(folder, 'users')}`,
    `pool_mode = ${mode}`,
    `default_pool_size = ${poolSize}`,
    `max_client_conn = ${clientsMax}`,
    `stats_users = ${[...users.keys()].join(',')}`,
    ...(ignoresSettings ? ['ignore_startup_parameters = options'] : []),
  ];
  await writeFile(path.join(folder, 'pgbouncer.ini'), `${settings.join('\n')}\n`);
  // It refuses to run as root.
  const account = startedByRoot() ? await unprivilegedAccount() : undefined;
  if (account !== undefined) await chown(folder, account.uid, account.gid);
  const child = spawn('pgbouncer', ['--quiet', path.join(folder, 'pgbouncer.ini')], {
    ...account,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: string[] = [];
  child.stderr.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const killOnExit = () => child.kill('SIGKILL');
  process.once('exit', killOnExit);
  await eventually(
    () => isListening(port),
    (isUp) => {
      if (child.exitCode !== null) throw new Error(`pgbouncer ended: ${said.join('')}`);
      return isUp;
    },
  );
  const through = (url: string) => {
    const changed = new URL(url);
    changed.hostname = '127.0.0.1';
    changed.port = String(port);
    return changed.href;
  };
  const consoleUrl = new URL(through(first));
  consoleUrl.pathname = '/pgbouncer';
  return {
    through,
    consoleUrl: consoleUrl.href,
    async stop() {
      process.removeListener('exit', killOnExit);
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

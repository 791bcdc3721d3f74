import { spawn, spawnSync } from 'node:child_process';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';
import { skipWithout } from '../../../../support/skip-without.ts';

/** A MariaDB server of a test, as the system user of such servers. */
export interface TestMariadb {
  folder: string;
  /** As the agent lists it. */
  instance: string;
  sql(statement: string): string;
  /** A folder for a restore, which belongs to the system user. */
  target(name: string): Promise<string>;
  /** Starts a server with a restored folder, and returns what a statement gives there. */
  askRestored(folder: string, statement: string): Promise<string>;
  close(): Promise<void>;
}

const SERVER = '/usr/sbin/mariadbd';
const succeeds = (file: string, ...args: string[]) => spawnSync(file, args).status === 0;
const isThere = () =>
  process.getuid?.() === 0 && succeeds(SERVER, '--version') && succeeds('mariadb-backup', '--version');

export const mysqlUser = () => ({
  uid: Number(spawnSync('id', ['-u', 'mysql'], { encoding: 'utf8' }).stdout),
  gid: Number(spawnSync('id', ['-g', 'mysql'], { encoding: 'utf8' }).stdout),
});

export async function startTestMariadb(test: Context): Promise<TestMariadb> {
  skipWithout(test, isThere(), 'mariadb-server, mariadb-backup, and root');
  const user = mysqlUser();
  const folder = await mkdtemp(path.join(tmpdir(), "muster-db'"));
  await chown(folder, user.uid, user.gid);
  const data = path.join(folder, 'data');
  await mkdir(data);
  await chown(data, user.uid, user.gid);
  const made = spawnSync(
    'mariadb-install-db',
    [
      '--no-defaults',
      `--datadir=${data}`,
      '--user=mysql',
      '--auth-root-authentication-method=socket',
      '--skip-test-db',
    ],
    { encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(made.stderr + made.stdout);
  const instance = path.join(folder, 's');
  const server = await start(data, instance, user);
  const target: TestMariadb['target'] = async (name) => {
    const place = path.join(folder, name);
    await mkdir(place, { mode: 0o700 });
    await chown(place, user.uid, user.gid);
    return place;
  };
  return {
    folder,
    instance,
    target,
    sql: (statement) => ask(instance, statement),
    async askRestored(restored, statement) {
      const socket = path.join(folder, 'r');
      const other = await start(restored, socket, user);
      try {
        return ask(socket, statement);
      } finally {
        await other.stop();
      }
    },
    async close() {
      await server.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function ask(socket: string, statement: string): string {
  const args = ['--no-defaults', '--protocol=socket', `--socket=${socket}`, '--user=root', '-NB', '--raw'];
  const { status, stdout, stderr } = spawnSync('mariadb', args, { input: statement, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return stdout.trim();
}

async function start(data: string, socket: string, user: { uid: number; gid: number }) {
  const child = spawn(
    SERVER,
    [
      '--no-defaults',
      `--datadir=${data}`,
      `--socket=${socket}`,
      '--skip-networking',
      `--pid-file=${socket}.pid`,
    ],
    { ...user, cwd: '/', stdio: 'ignore' },
  );
  const ended = new Promise((resolve) => child.once('close', resolve));
  for (let tries = 0; tries < 1200; tries += 1) {
    if (child.exitCode !== null) throw new Error('the server of MariaDB has ended');
    if (spawnSync('mariadb-admin', ['--no-defaults', `--socket=${socket}`, 'ping']).status === 0) {
      return {
        async stop() {
          child.kill('SIGTERM');
          await ended;
        },
      };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('the server of MariaDB has not started');
}

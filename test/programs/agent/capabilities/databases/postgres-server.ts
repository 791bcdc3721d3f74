import { spawn, spawnSync } from 'node:child_process';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Context } from 'mocha';
import { skipWithout } from '../../../../support/skip-without.ts';

/** A PostgreSQL server of a test, of the release of the distribution, as the system user of such servers. */
export interface TestPostgres {
  folder: string;
  /** As the agent lists it. */
  instance: string;
  /** Runs statements, and returns what the last one gives, as text. */
  sql(statement: string, database?: string): string;
  /** A folder for a restore, which belongs to the system user. */
  target(name: string): Promise<string>;
  /** Starts a server with a restored folder, and returns what a statement gives there. */
  askRestored(folder: string, statement: string): string;
  close(): Promise<void>;
}

const RELEASE = '15';
const PROGRAMS = `/usr/lib/postgresql/${RELEASE}/bin`;
const USER = 'postgres';

const isThere = () =>
  process.getuid?.() === 0 &&
  spawnSync(`${PROGRAMS}/postgres`, ['--version']).status === 0 &&
  spawnSync(`${PROGRAMS}/pg_receivewal`, ['--version']).status === 0;

function asUser(file: string, args: readonly string[], input?: string): string {
  const { status, stdout, stderr } = spawnSync(file, args, {
    ...identity(),
    cwd: '/',
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    encoding: 'utf8',
    ...(input === undefined ? {} : { input }),
  });
  if (status !== 0) throw new Error(`${file}: ${stderr}`);
  return stdout;
}

let known: { uid: number; gid: number } | undefined;
export function identity(): { uid: number; gid: number } {
  known ??= {
    uid: Number(spawnSync('id', ['-u', USER], { encoding: 'utf8' }).stdout),
    gid: Number(spawnSync('id', ['-g', USER], { encoding: 'utf8' }).stdout),
  };
  return known;
}

/** @param settings  of the server, such as `wal_keep_size=1GB` */
export async function startTestPostgres(
  test: Context,
  settings: readonly string[] = [],
): Promise<TestPostgres> {
  skipWithout(test, isThere(), `postgresql-${RELEASE}, and root`);
  const { uid, gid } = identity();
  const folder = await mkdtemp(path.join(tmpdir(), "muster-pg'"));
  await chown(folder, uid, gid);
  const data = path.join(folder, 'data');
  asUser(`${PROGRAMS}/initdb`, ['-D', data, '--auth', 'peer', '--no-sync', '--wal-segsize', '1']);
  const server = start(data, folder, settings);
  await ready(folder);
  const sql: TestPostgres['sql'] = (statement, database = 'postgres') =>
    asUser(
      `${PROGRAMS}/psql`,
      ['-h', folder, '-d', database, '-qXAt', '-v', 'ON_ERROR_STOP=1'],
      statement,
    ).trim();
  return {
    folder,
    instance: path.join(folder, '.s.PGSQL.5432'),
    sql,
    async target(name) {
      const target = path.join(folder, name);
      await mkdir(target, { mode: 0o700 });
      await chown(target, uid, gid);
      return target;
    },
    askRestored(restored, statement) {
      const file = `${PROGRAMS}/pg_ctl`;
      const sockets = path.join(restored, 's');
      asUser('/bin/mkdir', ['-p', sockets]);
      const options = `-c listen_addresses= -c unix_socket_directories="${sockets}" -c fsync=off`;
      asUser(file, ['-D', restored, '-w', '-l', path.join(restored, 'log'), '-o', options, 'start']);
      try {
        return asUser(`${PROGRAMS}/psql`, ['-h', sockets, '-d', 'postgres', '-qXAt'], statement).trim();
      } finally {
        asUser(file, ['-D', restored, '-w', '-m', 'fast', 'stop']);
      }
    },
    async close() {
      server.kill('SIGINT');
      await new Promise((resolve) => {
        server.once('close', resolve);
        if (server.exitCode !== null || server.signalCode !== null) resolve(undefined);
      });
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function start(data: string, sockets: string, settings: readonly string[]) {
  const all = [
    'listen_addresses=',
    `unix_socket_directories="${sockets}"`,
    'fsync=off',
    'min_wal_size=2MB',
    ...settings,
  ];
  return spawn(`${PROGRAMS}/postgres`, ['-D', data, ...all.flatMap((each) => ['-c', each])], {
    ...identity(),
    cwd: '/',
    stdio: 'ignore',
  });
}

async function ready(sockets: string): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (
      spawnSync(`${PROGRAMS}/pg_isready`, ['-h', sockets, '-q'], { ...identity(), cwd: '/' }).status === 0
    ) {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('the server of PostgreSQL has not started');
}

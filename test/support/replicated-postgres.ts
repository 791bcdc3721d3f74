import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Context } from 'mocha';
import pg from 'pg';
import { startedByRoot, unprivilegedAccount } from '../../src/platform/db/embedded/installation.ts';
import { eventually } from './eventually.ts';
import { lastingPort } from './lasting-port.ts';
import { skipWithout } from './skip-without.ts';

/** Debian's Postgres: the one that npm ships has no `pg_basebackup`. */
const PROGRAMS = '/usr/lib/postgresql/15/bin';
const OWNER = { name: 'muster_owner', password: 'only-for-tests' };
const DATABASE = 'muster';
const SOON_MS = 60_000;
/** Small, and without waiting for a disk: a process that is killed leaves what it has written to the system. */
const SETTINGS = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
shared_buffers = 32MB
max_connections = 200
max_wal_senders = 4
wal_level = replica
hot_standby = on
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 500ms
`;
const STANDBY_NAME = 'muster_standby';

/** One server of a pair: a real program, which can be killed and started again. */
export interface PostgresServer {
  port: number;
  /** kill -9; returns when the program has ended. */
  kill(): Promise<void>;
  /** Starts it as it was: as a primary if it was one, as a standby if it was one. */
  start(): Promise<void>;
  /** Adds settings, which count from the next start. */
  configure(settings: string): Promise<void>;
  /** Makes a standby the primary; returns when it takes writes. */
  promote(): Promise<void>;
  /** A question to this very server, as its superuser. */
  ask<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]>;
}

/** A primary and its streaming standby, which confirms each commit before the client hears of it. */
export interface ReplicatedPostgres {
  primary: PostgresServer;
  standby: PostgresServer;
  /** The address of the database at a server, or at another port that leads to one. */
  ownerUrl(port: number): string;
  appUrl(port: number): string;
  remove(): Promise<void>;
}

/** Skips the test where Postgres 15 of Debian is not installed, and fails there in CI. */
export async function replicatedPostgresOrSkip(test: Context): Promise<ReplicatedPostgres> {
  skipWithout(test, existsSync(path.join(PROGRAMS, 'pg_basebackup')), 'postgresql-15');
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-replicated-'));
  const account = startedByRoot() ? await unprivilegedAccount() : undefined;
  if (account !== undefined) await chown(folder, account.uid, account.gid);
  await chmod(folder, 0o700);
  const run = async (program: string, args: readonly string[]) =>
    promisify(execFile)(path.join(PROGRAMS, program), args, {
      ...account,
      cwd: folder,
      env: { LC_ALL: 'C' },
    });
  const urlOf =
    (user: string, password: string, database = DATABASE) =>
    (port: number) =>
      `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
  const adminUrl = urlOf(OWNER.name, OWNER.password, 'postgres');
  const servers: PostgresServer[] = [];

  const serverIn = async (name: string): Promise<PostgresServer & { data: string }> => {
    const data = path.join(folder, name);
    const port = await lastingPort();
    let child: ChildProcess | undefined;
    const killOnExit = () => child?.kill('SIGKILL');
    const ask = async <Row extends pg.QueryResultRow>(sql: string) => {
      const client = new pg.Client({ connectionString: adminUrl(port), connectionTimeoutMillis: SOON_MS });
      client.on('error', () => {});
      await client.connect();
      try {
        return (await client.query<Row>(sql)).rows;
      } finally {
        await client.end().catch(() => {});
      }
    };
    const server = {
      data,
      port,
      ask,
      async kill() {
        const ending = child;
        child = undefined;
        if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
        process.removeListener('exit', killOnExit);
        const ended = once(ending, 'exit');
        ending.kill('SIGKILL');
        await ended;
      },
      async start() {
        // What a killed server leaves: its children end by themselves, and the file names a process that is gone.
        await eventually(
          () => start(),
          (isUp) => isUp,
          SOON_MS,
        );
      },
      // The file that `alter system` writes wins over the other one, and its last line over those before.
      configure: (settings: string) => appendFile(path.join(data, 'postgresql.auto.conf'), `${settings}\n`),
      async promote() {
        await run('pg_ctl', ['promote', '--wait', '--pgdata', data]);
      },
    };
    const start = async (): Promise<boolean> => {
      const started = spawn(path.join(PROGRAMS, 'postgres'), ['-D', data, '-p', String(port)], {
        ...account,
        cwd: folder,
        env: { LC_ALL: 'C' },
        stdio: 'ignore',
      });
      child = started;
      process.once('exit', killOnExit);
      await eventually(
        async () =>
          started.exitCode !== null ||
          (await ask('select 1').then(
            () => true,
            () => false,
          )),
        (isKnown) => isKnown,
        SOON_MS,
      );
      return started.exitCode === null;
    };
    servers.push(server);
    return server;
  };

  const remove = async () => {
    for (const server of servers) await server.kill();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const primary = await serverIn('primary');
    const passwordFile = path.join(folder, 'password');
    await writeFile(passwordFile, OWNER.password);
    await chmod(passwordFile, 0o644);
    await run('initdb', [
      '--pgdata',
      primary.data,
      '--username',
      OWNER.name,
      '--pwfile',
      passwordFile,
      '--auth',
      'scram-sha-256',
      '--encoding',
      'UTF8',
      '--no-locale',
      '--no-sync',
    ]);
    await primary.configure(SETTINGS);
    await primary.start();
    await primary.ask(`create database ${DATABASE}`);
    const standby = await serverIn('standby');
    await run('pg_basebackup', [
      '--pgdata',
      standby.data,
      '--dbname',
      `host=127.0.0.1 port=${primary.port} user=${OWNER.name} password=${OWNER.password} application_name=${STANDBY_NAME}`,
      '--write-recovery-conf',
      '--checkpoint=fast',
      '--wal-method=stream',
      '--no-sync',
    ]);
    await standby.start();
    // Only the first primary waits for a standby: the one that takes over has none.
    await primary.ask(`alter system set synchronous_standby_names = '${STANDBY_NAME}'`);
    await primary.ask('select pg_reload_conf()');
    await eventually(
      () => primary.ask<{ state: string }>('select sync_state as state from pg_stat_replication'),
      (rows) => rows.some(({ state }) => state === 'sync'),
      SOON_MS,
    );
    return {
      primary,
      standby,
      ownerUrl: urlOf(OWNER.name, OWNER.password),
      appUrl: urlOf('svc_app', 'only-for-tests'),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

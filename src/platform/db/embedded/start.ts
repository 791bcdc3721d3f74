import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import {
  type Account,
  EmbeddedPostgresError,
  errorCode,
  type Binaries,
  readIfThere,
  program,
} from './installation.ts';
import {
  type Launched,
  launch,
  postmasterStatus,
  readLog,
  runningPostmaster,
  lastLines,
  processState,
  run,
} from './postmaster.ts';
import { realpath, chown, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { Client, escapeIdentifier } from 'pg';
import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';

export const superuser = 'muster';
export const passwordName = 'postgres.password';
const unfinishedPrefix = 'postgres.init-';

/** The password of the data folder, made once. Of two starts at the same moment, one makes it and both use it. */
export async function ownPassword(dataDir: string, clusterExists: boolean): Promise<string> {
  const file = join(dataDir, passwordName);
  if (!clusterExists) {
    const fresh = randomBytes(24).toString('base64url');
    await writeFile(file, `${fresh}\n`, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error;
    });
  }
  for (let look = 0; look < 20; look += 1) {
    const password = (await readIfThere(file))?.trim();
    if (password !== undefined && password !== '') return password;
    if (password === undefined && clusterExists) break;
    await clock.sleep(50);
  }
  throw new EmbeddedPostgresError(
    'start_failed',
    `The file ${file} holds the password of the embedded Postgres and is missing or empty. Restore it from a backup; without a cluster that is worth keeping, delete it and the cluster.`,
  );
}

interface NewCluster {
  clusterDir: string;
  binaries: Binaries;
  account: Account | undefined;
  password: string;
  durable: boolean;
  log: Logger;
}

/** Made under another name and then renamed: what stands in the cluster's place is always complete. */
export async function createCluster(wanted: NewCluster): Promise<void> {
  const parent = dirname(wanted.clusterDir);
  await sweepUnfinished(parent, wanted.log);
  const work = join(parent, `${unfinishedPrefix}${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    await mkdir(work, { mode: 0o700 });
    const passwordFile = join(work, 'password');
    await writeFile(passwordFile, `${wanted.password}\n`, { mode: 0o600, flag: 'wx' });
    if (wanted.account !== undefined) {
      await chown(passwordFile, wanted.account.uid, wanted.account.gid);
      await chown(work, wanted.account.uid, wanted.account.gid);
    }
    await initdb(join(work, 'cluster'), passwordFile, wanted);
    await rm(passwordFile);
    await rename(join(work, 'cluster'), wanted.clusterDir);
    wanted.log.info({ clusterDir: wanted.clusterDir }, 'postgres cluster created');
  } catch (error) {
    const code = errorCode(error);
    // Another start on the same folder was faster; its cluster has the same password.
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function initdb(target: string, passwordFile: string, wanted: NewCluster): Promise<void> {
  // The built-in provider gives the same Unicode rules on every system; plain C would break ILIKE and lower().
  const args = ['-D', target, '-U', superuser, '-E', 'UTF8', '--locale=C', '--locale-provider=builtin'];
  args.push(
    '--builtin-locale=C.UTF-8',
    '--auth=scram-sha-256',
    `--pwfile=${passwordFile}`,
    '--no-instructions',
  );
  if (!wanted.durable) args.push('--no-sync');
  const result = await run(join(wanted.binaries.dir, program('initdb')), args, wanted.account);
  if (result.code === 0) return;
  throw new EmbeddedPostgresError(
    'start_failed',
    `The embedded Postgres could not create its cluster for ${wanted.clusterDir} (initdb ended with ${result.code}): ${lastLines(result.output)}`,
  );
}

export async function sweepUnfinished(parent: string, log: Logger): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(name.match(/^postgres\.init-(\d+)-/)?.[1]);
    if (Number.isNaN(pid)) continue;
    const path = join(parent, name);
    const age = clock.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? 0);
    // In a container every process can have had the same pid, so age counts too.
    if ((await processState(pid)) === 'alive' && age < 600_000) continue;
    log.warn({ path }, 'unfinished postgres cluster removed');
    // The initdb of a killed start can still be at work in there; what it leaves, the next start removes.
    await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }).catch((err: unknown) =>
      log.warn({ err, path }, 'unfinished postgres cluster not removed'),
    );
  }
}

export interface Server {
  port: number;
  password: string;
  clusterDir: string;
}

/** A superuser connection, verified to be to the server of this cluster and no other. */
export async function connect(server: Server): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: server.port,
    user: superuser,
    password: server.password,
    database: 'postgres',
    ssl: false,
    application_name: 'muster owner',
    connectionTimeoutMillis: 5000,
    keepAlive: true,
  });
  // An error between two queries has no one to reject to; without a listener it would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ data_directory: string }>('show data_directory');
    const shown = rows[0]?.data_directory ?? '';
    if ((await realpath(shown).catch(() => shown)) !== server.clusterDir) {
      throw new Error(`The server on port ${server.port} belongs to ${shown}.`);
    }
    return client;
  } catch (error) {
    // Not awaited: if the connection was refused, it never settles.
    void client.end().catch(() => undefined);
    throw error;
  }
}

export async function createDatabase(client: Client, name: string): Promise<void> {
  const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name]);
  if (rowCount === 0) await client.query(`create database ${escapeIdentifier(name)}`);
}

// All are answered by another look: a port taken in between, another start that was faster, and the last processes of
// a killed server, which notice its end a moment later.
const passing =
  /Address already in use|could not bind|lock file "postmaster.pid" already exists|shared memory block/;
const attempts = 3;
const pauseMs = 300;
const answerPatienceMs = 60_000;

interface Wanted {
  clusterDir: string;
  password: string;
  binaries: Binaries;
  account: Account | undefined;
  durable: boolean;
  pickPort: () => Promise<number>;
  log: Logger;
}

export interface RunningServer extends Server {
  pid: number;
  adopted: boolean;
  /** Only of a server that is our own child. */
  hasEnded?: () => boolean;
}

/** The server of the cluster: the one that runs already, or else a new one. */
export async function reachServer(wanted: Wanted): Promise<RunningServer> {
  let failure = '';
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const adopted = await adopt(wanted, true);
    if (adopted !== undefined) return adopted;
    const port = await wanted.pickPort();
    const launched = await launch({ ...wanted, port });
    const server = { port, pid: launched.pid, password: wanted.password, clusterDir: wanted.clusterDir };
    try {
      const answered = await answers(server, () => launched.hasEnded(), wanted.log);
      if (answered) return { ...server, adopted: false, hasEnded: () => launched.hasEnded() };
    } catch (error) {
      // No process can use it, so none will stop it either.
      if (!launched.hasEnded()) process.kill(launched.pid, 'SIGINT');
      throw error;
    }
    failure = await explain(launched, wanted.clusterDir);
    if (!passing.test(failure)) break;
    wanted.log.warn({ attempt, port, failure }, 'postgres start repeated');
    await clock.sleep(pauseMs);
  }
  throw new EmbeddedPostgresError(
    'start_failed',
    `The embedded Postgres of ${wanted.clusterDir} did not start: ${failure}. See server.log in that folder, or set DATABASE_URL.`,
  );
}

/** @param disowns  as in `runningPostmaster` */
export async function adopt(
  wanted: { clusterDir: string; password: string; log: Logger },
  disowns: boolean,
): Promise<RunningServer | undefined> {
  const running = await runningPostmaster(wanted.clusterDir, disowns);
  if (running === undefined) return undefined;
  const server = { ...running, password: wanted.password, clusterDir: wanted.clusterDir };
  // It can be on its way out: stopped by the Muster that has just ended.
  const hasEnded = async (): Promise<boolean> => (await processState(running.pid)) !== 'alive';
  const answered = await answers(server, hasEnded, wanted.log);
  return answered ? { ...server, adopted: true } : undefined;
}

/** True when it lets us in; false when it has ended before. */
async function answers(
  server: Server & { pid: number },
  hasEnded: () => boolean | Promise<boolean>,
  log: Logger,
): Promise<boolean> {
  let deadline = clock.monotonic() + answerPatienceMs;
  let reported = clock.monotonic();
  let reason = 'it does not get ready';
  while (clock.monotonic() < deadline) {
    if (await hasEnded()) return false;
    // Until it says so itself, another program may be the one that listens on this port.
    const status = await postmasterStatus(server);
    if (status === 'ready') {
      try {
        await (await connect(server)).end();
        return true;
      } catch (error) {
        if (errorCode(error) === '28P01') throw wrongPassword(server, error);
        reason = error instanceof Error ? error.message : String(error);
      }
    } else if (status !== undefined) {
      // Recovery after a crash takes as long as it takes.
      deadline = clock.monotonic() + answerPatienceMs;
      if (clock.monotonic() - reported > 10_000) {
        reported = clock.monotonic();
        log.info({ clusterDir: server.clusterDir, status }, 'waiting for postgres');
      }
    }
    await clock.sleep(25);
  }
  const lines = lastLines(await readLog(server.clusterDir));
  throw new EmbeddedPostgresError(
    'start_failed',
    `The Postgres of ${server.clusterDir} runs (pid ${server.pid}, port ${server.port}) but refuses connections (${reason}): ${lines}`,
  );
}

function wrongPassword(server: Server, cause: unknown): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'start_failed',
    `The Postgres of ${server.clusterDir} does not accept the password in postgres.password of the data folder. Restore that file from a backup.`,
    { cause },
  );
}

async function explain(launched: Launched, clusterDir: string): Promise<string> {
  return `${await launched.ended}: ${lastLines(await readLog(clusterDir))}`;
}

// Any fixed number would do; this one spells "muster".
const lockKey = '120416110118834';
const retryEveryMs = 1000;

/** The sign that a data folder has an owner: held for as long as the process, and gone with it. */
interface OwnerLock {
  /** Whether some other process has taken it after we lost it. */
  lostToAnother(): boolean;
  /** From here on the end of the connection is expected. */
  expectEnd(): void;
  release(): Promise<void>;
}

/** Undefined if another process holds it. */
export async function takeOwnerLock(
  server: Server,
  log: Logger,
  patienceMs: number,
): Promise<{ lock: OwnerLock; client: Client } | undefined> {
  const first = await connect(server);
  const deadline = clock.monotonic() + patienceMs;
  while (!(await tryLock(first))) {
    if (clock.monotonic() > deadline) {
      await first.end();
      return undefined;
    }
    await clock.sleep(100);
  }

  const state = { client: first, endExpected: false, lostToAnother: false };
  const { clusterDir } = server;

  const regain = async (): Promise<void> => {
    while (!state.endExpected) {
      await clock.sleep(retryEveryMs, { unref: true });
      const next = await connect(server).catch(() => undefined);
      if (next === undefined) continue;
      const held = await tryLock(next).catch(() => undefined);
      if (held === true && !state.endExpected) {
        state.lostToAnother = false;
        log.info({ clusterDir }, 'postgres owner lock regained');
        hold(next);
        return;
      }
      await next.end().catch(() => undefined);
      if (held === false && !state.lostToAnother) {
        state.lostToAnother = true;
        log.error({ clusterDir }, 'postgres owner lock held by another');
      }
    }
  };

  const hold = (client: Client): void => {
    state.client = client;
    let reason: Error | undefined;
    client.on('error', (error) => {
      reason ??= error;
    });
    client.once('end', () => {
      if (state.endExpected) return;
      log.error({ clusterDir, err: reason }, 'postgres owner lock lost');
      void regain();
    });
  };
  hold(first);

  const lock: OwnerLock = {
    lostToAnother: () => state.lostToAnother,
    expectEnd() {
      state.endExpected = true;
    },
    async release() {
      state.endExpected = true;
      await state.client.end().catch(() => undefined);
    },
  };
  return { lock, client: first };
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>('select pg_try_advisory_lock($1) as held', [
    lockKey,
  ]);
  return rows[0]?.held === true;
}

// A Postgres of our own in the data folder, for installations without a DATABASE_URL. See docs/decisions/embedded-postgres.md.
import { mkdir, realpath, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import {
  startedByRoot,
  type Machine,
  thisMachine,
  EmbeddedPostgresError,
  errorCode,
  namingDataDir,
  clusterVersion,
  locate,
  pointerName,
  readIfThere,
  settle,
  findBinaries,
  readyBinaries,
} from './installation.ts';
import {
  createDatabase,
  createCluster,
  ownPassword,
  passwordName,
  superuser,
  sweepUnfinished,
  adopt,
  reachServer,
  takeOwnerLock,
} from './start.ts';
import { runningPostmaster, shutDown } from './postmaster.ts';

export { EmbeddedPostgresError } from './installation.ts';

export interface EmbeddedPostgres {
  /** Connection of the owner, a superuser: for migrations. */
  ownerUrl: string;
  host: '127.0.0.1';
  port: number;
  user: string;
  password: string;
  database: 'muster';
  /** A server of ours was already running on this folder. */
  adopted: boolean;
  /** Where the cluster really is. */
  clusterDir: string;
  /** Fast shutdown; waits until the process is gone. Calling it again changes nothing. */
  stop(): Promise<void>;
}

interface Options {
  dataDir: string;
  log: Logger;
  /** False for tests: faster, and a crash of the machine may lose the data. */
  durable?: boolean;
}

export async function startEmbeddedPostgres(
  { dataDir, log, durable = true }: Options,
  changes: Partial<Machine> = {},
): Promise<EmbeddedPostgres> {
  const begun = clock.monotonic();
  const machine = { ...thisMachine(), ...changes };
  const found = await findBinaries(machine);
  const ready = await namingDataDir(resolve(dataDir), async () => {
    await mkdir(dataDir, { recursive: true });
    const real = await realpath(dataDir);
    const location = await locate(real, machine.clustersHome);
    await settle(real, location, log);
    const { clusterDir, account } = location;
    const version = await clusterVersion(clusterDir, log);
    if (version !== undefined && version !== found.major) throw otherMajor(clusterDir, version, found.major);
    const binaries = await readyBinaries(found, account, startedByRoot() ? machine.binariesHome : real, log);
    const password = await ownPassword(real, version !== undefined);
    const cluster = { clusterDir, binaries, account, password, durable, log };
    if (version === undefined) await createCluster(cluster);
    return { ...cluster, clusterDir: await realpath(clusterDir) };
  });
  const server = await namingDataDir(resolve(dataDir), () =>
    reachServer({ ...ready, pickPort: machine.pickPort }),
  );
  const { clusterDir, password } = ready;
  const owned = await takeOwnerLock(server, log, machine.ownerPatienceMs);
  if (owned === undefined) throw inUse(dataDir);
  const { port, pid, adopted } = server;

  const end = async (): Promise<void> => {
    if (owned.lock.lostToAnother()) {
      log.warn({ clusterDir }, 'postgres left running for its new owner');
    } else {
      // Kept until the server itself ends it, so that no other Muster takes over a server that is about to stop.
      owned.lock.expectEnd();
      await shutDown({ ...server, binaries: ready.binaries }, log);
    }
    await owned.lock.release();
  };
  try {
    await createDatabase(owned.client, 'muster');
  } catch (error) {
    await end();
    throw error;
  }
  log.info({ clusterDir, port, pid, adopted, ms: Math.round(clock.monotonic() - begun) }, 'postgres started');
  let ending: Promise<void> | undefined;
  return {
    ownerUrl: ownerUrl(password, port),
    host: '127.0.0.1',
    port,
    user: superuser,
    password,
    database: 'muster',
    adopted,
    clusterDir,
    stop: () => (ending ??= end()),
  };
}

/** The Postgres that a Muster has running on this data folder, for a command beside it; it is not taken over. */
export async function runningEmbeddedPostgres(
  dataDir: string,
  changes: Partial<Machine> = {},
): Promise<{ ownerUrl: string } | undefined> {
  const real = await realpath(dataDir).catch(() => undefined);
  if (real === undefined) return undefined;
  const running = await runningPostmaster(await clusterLocation(real, changes), false);
  const password = (await readIfThere(join(real, passwordName)))?.trim();
  if (running === undefined || password === undefined) return undefined;
  return { ownerUrl: ownerUrl(password, running.port) };
}

/** Whether a start on this data folder would find a cluster instead of creating one. */
export async function hasCluster(dataDir: string, changes: Partial<Machine> = {}): Promise<boolean> {
  const real = await realpath(dataDir).catch(() => undefined);
  if (real === undefined) return false;
  return (await readIfThere(join(await clusterLocation(real, changes), 'PG_VERSION'))) !== undefined;
}

const ownerUrl = (password: string, port: number) =>
  `postgres://${superuser}:${password}@127.0.0.1:${port}/muster`;

/** Where the cluster of a data folder is, or would be made by a start from this user. */
export async function clusterLocation(dataDir: string, changes: Partial<Machine> = {}): Promise<string> {
  const { clustersHome } = { ...thisMachine(), ...changes };
  return (await locate(dataDir, clustersHome)).clusterDir;
}

/** Deletes the cluster of a data folder and its password. Refuses while a Muster uses it; stops what a dead one left. */
export async function removeCluster(
  { dataDir, log }: { dataDir: string; log: Logger },
  changes: Partial<Machine> = {},
): Promise<void> {
  const machine = { ...thisMachine(), ...changes };
  const real = await realpath(dataDir).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (real === undefined) return;
  await namingDataDir(dataDir, async () => {
    const { clusterDir, elsewhere } = await locate(real, machine.clustersHome);
    await stopOrphan(real, clusterDir, machine, log);
    await rm(elsewhere ? dirname(clusterDir) : clusterDir, { recursive: true, force: true });
    await sweepUnfinished(real, log);
    for (const name of [passwordName, pointerName]) await rm(join(real, name), { force: true });
    log.info({ clusterDir }, 'postgres cluster removed');
  });
}

async function stopOrphan(dataDir: string, clusterDir: string, machine: Machine, log: Logger): Promise<void> {
  if ((await runningPostmaster(clusterDir, false)) === undefined) return;
  const password = (await readIfThere(join(dataDir, passwordName)))?.trim();
  if (password === undefined) throw inUse(dataDir);
  const server = await adopt({ clusterDir, password, log }, false);
  if (server === undefined) return;
  const owned = await takeOwnerLock(server, log, machine.ownerPatienceMs);
  if (owned === undefined) throw inUse(dataDir);
  owned.lock.expectEnd();
  await shutDown({ pid: server.pid, clusterDir, binaries: await findBinaries(machine) }, log);
  await owned.lock.release();
}

function inUse(dataDir: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'in_use',
    `The data folder ${resolve(dataDir)} is in use by another Muster server, and a data folder serves one at a time. Stop that one, or give this one another folder with DATA_DIR.`,
  );
}

function otherMajor(clusterDir: string, found: string, ours: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'major_mismatch',
    `The cluster ${clusterDir} was made by Postgres ${found} and this Muster brings Postgres ${ours}, which does not read it. Start the Muster release that made it, dump its database with pg_dump ${found}, and restore that into an empty data folder; or set DATABASE_URL.`,
  );
}

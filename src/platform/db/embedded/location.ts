import { createHash } from 'node:crypto';
import {
  chmod,
  lchown,
  lstat,
  mkdir,
  readFile,
  readdir,
  realpath,
  rename,
  writeFile,
} from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import { type Account, canReach, startedByRoot, unprivilegedAccount } from './account.ts';
import { EmbeddedPostgresError, errorCode } from './errors.ts';

export const pointerName = 'postgres.location';

export interface Location {
  clusterDir: string;
  /** Undefined: Postgres runs as the user who started Muster. */
  account: Account | undefined;
  /** The cluster lives outside the data folder, which then holds a file that says where. */
  elsewhere: boolean;
}

/** Where the cluster of a data folder is, or would be made by a start from this user. */
export async function locate(dataDir: string, clustersHome: string): Promise<Location> {
  const real = await realpath(dataDir);
  const pointed = await followPointer(real, clustersHome);
  const inside = join(real, 'postgres');
  const existing = pointed ?? ((await owner(inside)) === undefined ? undefined : inside);
  if (!startedByRoot()) {
    return { clusterDir: existing ?? inside, account: undefined, elsewhere: pointed !== undefined };
  }
  // A cluster that is there goes on as the user that it belongs to, also after a `postgres` user has appeared.
  const belongsTo = existing === undefined ? undefined : await owner(existing);
  const account = belongsTo === undefined || belongsTo.uid === 0 ? await unprivilegedAccount() : belongsTo;
  if (existing !== undefined) return { clusterDir: existing, account, elsewhere: pointed !== undefined };
  if (await canReach(real, account)) return { clusterDir: inside, account, elsewhere: false };
  const hash = createHash('sha256').update(real).digest('hex').slice(0, 12);
  return { clusterDir: join(clustersHome, hash, 'postgres'), account, elsewhere: true };
}

/** Makes the folder that the cluster goes into, says in the data folder where, and hands an old cluster to its user. */
export async function settle(dataDir: string, location: Location, log: Logger): Promise<void> {
  const { clusterDir, account, elsewhere } = location;
  const parent = dirname(clusterDir);
  if (elsewhere) {
    await openFolder(dirname(parent));
    await openFolder(parent);
    await writeFile(join(parent, 'origin'), `${await realpath(dataDir)}\n`);
    await writeFile(join(dataDir, pointerName), `${clusterDir}\n`);
    log.info({ dataDir, clusterDir }, 'postgres cluster outside closed data folder');
  }
  if (account === undefined) return;
  if (!(await canReach(parent, account))) {
    throw new EmbeddedPostgresError(
      'data_dir_unwritable',
      `The cluster ${clusterDir} lies below a folder that is closed to the user that it belongs to (uid ${account.uid}), and Postgres does not run as root. Open the folders above it (chmod o+x), start as that user, or set DATABASE_URL.`,
    );
  }
  if ((await owner(clusterDir))?.uid === 0) await handOver(clusterDir, account);
}

/** A folder in the cluster's place: a cluster, nothing yet, or what an interrupted creation left. */
export async function clusterVersion(clusterDir: string, log: Logger): Promise<string | undefined> {
  const entries = await readdir(clusterDir).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  });
  if (entries.length === 0) return undefined;
  const version = await readIfThere(join(clusterDir, 'PG_VERSION'));
  const control = await lstat(join(clusterDir, 'global', 'pg_control')).catch(() => undefined);
  if (version !== undefined && control !== undefined) return version.trim();
  if (version === undefined && control === undefined) {
    const aside = `${clusterDir}.unfinished-${clock.now()}`;
    await rename(clusterDir, aside);
    log.warn({ clusterDir, aside }, 'unfinished postgres cluster set aside');
    return undefined;
  }
  // Starting with an empty database in place of a damaged one would look like the loss of all data.
  throw new EmbeddedPostgresError(
    'start_failed',
    `The cluster ${clusterDir} is damaged: ${version === undefined ? 'PG_VERSION' : 'global/pg_control'} is missing. Restore the folder from a backup, or move it away to begin with an empty database.`,
  );
}

export async function readIfThere(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
}

async function followPointer(dataDir: string, clustersHome: string): Promise<string | undefined> {
  const text = (await readIfThere(join(dataDir, pointerName)))?.trim();
  if (text === undefined || text === '') return undefined;
  const target = resolve(text);
  // What it names is handed to another user and can be deleted, so it names nothing but a folder of ours.
  if (!target.startsWith(clustersHome + sep) || !target.endsWith(`${sep}postgres`)) {
    throw new EmbeddedPostgresError(
      'start_failed',
      `The file ${join(dataDir, pointerName)} names ${target}, which is not a cluster below ${clustersHome}. Correct or delete that file.`,
    );
  }
  return target;
}

async function owner(path: string): Promise<Account | undefined> {
  const found = await lstat(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  return found === undefined ? undefined : { uid: found.uid, gid: found.gid };
}

// Opened only where we made it just now, under a umask that may have closed it.
async function openFolder(path: string): Promise<void> {
  if ((await mkdir(path, { recursive: true })) !== undefined) await chmod(path, 0o755);
}

async function handOver(path: string, account: Account): Promise<void> {
  await lchown(path, account.uid, account.gid);
  if (!(await lstat(path)).isDirectory()) return;
  for (const name of await readdir(path)) await handOver(join(path, name), account);
}

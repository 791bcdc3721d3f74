import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import { clock } from '../../../clock.ts';
import type { Account } from './account.ts';
import { type Binaries, program } from './binaries.ts';
import { EmbeddedPostgresError, errorCode } from './errors.ts';
import { readIfThere } from './location.ts';
import { lastLines, processState, run } from './processes.ts';

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

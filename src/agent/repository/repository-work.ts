import { stat } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../clock.ts';
import {
  type Engine,
  EngineError,
  initRepository,
  rebuildIndex,
  type Repository,
  type RunOptions,
  unlockOwn,
} from '../../engine/index.ts';
import type { BackupRepositoryAccess, SecretRef } from '../../protocol/index.ts';
import type { BackupParts } from './backup-parts.ts';
import { openRoute } from './engine-route.ts';
import { repositoryOf } from './repository-access.ts';

/** restic, a repository that it can open, and the limits of the command. */
export interface RepositoryWork {
  engine: Engine;
  repository: Repository;
  options: RunOptions & { signal: AbortSignal };
}

interface RepositoryCommand {
  payload: { repository: BackupRepositoryAccess; timeoutSeconds: number };
  context: { signal: AbortSignal; secret: (ref: SecretRef) => string };
}

/** It begins when restic has been stopped, and the agent waits for a command that it stops. */
const UNLOCK_MS = 6000;

/**
 * Works with the repository of a command, and leaves no lock there. restic removes its locks when it is interrupted, but
 * not in the moment in which it makes them, and not where it was killed.
 */
export async function withRepository<T>(
  parts: BackupParts,
  { payload, context }: RepositoryCommand,
  work: (use: RepositoryWork) => Promise<T>,
): Promise<T> {
  const { signal, secret } = context;
  return parts.engine.use({ signal, timeoutSeconds: payload.timeoutSeconds }, async (engine, limits) => {
    const { repository, proxy, close } = await openRepository(parts, payload.repository, secret);
    const use = { engine, repository, options: { ...limits, proxy } };
    try {
      const isUnfinished = payload.repository.isNew === true && (await makeWhereMissing(use)) === 'existed';
      return await withoutLocks(parts, [use], async () => {
        if (isUnfinished) await indexWhatIsThere(use, parts.warn);
        return work(use);
      });
    } finally {
      close();
    }
  });
}

/** One of the two repositories of a vault's sync. */
export interface VaultSide {
  repository: Repository;
  /** The way to it. */
  proxy: string | undefined;
}

export interface VaultWork {
  engine: Engine;
  source: VaultSide;
  vault: VaultSide;
  options: RunOptions & { signal: AbortSignal };
}

interface VaultCommand {
  payload: { source: BackupRepositoryAccess; vault: BackupRepositoryAccess; timeoutSeconds: number };
  context: RepositoryCommand['context'];
}

/** The same with a repository and its copy, which is made in the likeness of the first where it is new. */
export async function withVault<T>(
  parts: BackupParts,
  { payload, context }: VaultCommand,
  work: (use: VaultWork) => Promise<T>,
): Promise<T> {
  const { signal, secret } = context;
  return parts.engine.use({ signal, timeoutSeconds: payload.timeoutSeconds }, async (engine, options) => {
    const source = await openRepository(parts, payload.source, secret);
    const vault = await openRepository(parts, payload.vault, secret);
    const use = ({ repository, proxy }: VaultSide) => ({
      engine,
      repository,
      options: { ...options, proxy },
    });
    try {
      const both = { ...options, proxy: source.proxy ?? vault.proxy };
      const isUnfinished =
        payload.vault.isNew === true &&
        (await makeWhereMissing({ ...use(vault), options: both }, source.repository)) === 'existed';
      return await withoutLocks(parts, [use(source), use(vault)], async () => {
        if (isUnfinished) await indexWhatIsThere(use(vault), parts.warn);
        return work({ engine, source, vault, options });
      });
    } finally {
      source.close();
      vault.close();
    }
  });
}

/** The way to a repository, which is open until `close` is called. */
export async function openRepository(
  { server, network, folder }: BackupParts,
  wanted: BackupRepositoryAccess,
  secret: (ref: SecretRef) => string,
): Promise<VaultSide & { close: () => void }> {
  const access = repositoryOf(wanted, { server, secret });
  const { destination, proxy, close } = await openRoute(network, access.destination, folder);
  return { repository: { ...access, destination }, proxy, close };
}

/** Removes the locks of this machine before the work, and after it where it was stopped. */
async function withoutLocks<T>(
  parts: BackupParts,
  uses: readonly RepositoryWork[],
  work: () => Promise<T>,
): Promise<T> {
  try {
    for (const use of uses) await removeOwnLocks(use);
    return await work();
  } catch (error) {
    for (const use of uses) {
      if (!use.options.signal.aborted) break;
      const unlock = { ...use.options, signal: clock.timeoutSignal(UNLOCK_MS) };
      await removeOwnLocks({ ...use, options: unlock }).catch((cause: unknown) => {
        parts.warn(`A lock may have stayed in the repository, until its next use: ${String(cause)}`);
      });
    }
    throw error;
  }
}

/**
 * A repository with snapshots is never made anew: where it is missing, a disk is not mounted. For the same reason the
 * folder of a new one has to be there.
 */
async function makeWhereMissing(
  { engine, repository, options }: RepositoryWork,
  chunkedLike?: Repository,
): Promise<'made' | 'existed'> {
  const { destination } = repository;
  if (destination.type === 'local') {
    const folder = await stat(path.dirname(destination.path)).catch(() => undefined);
    if (folder?.isDirectory() !== true) {
      throw new EngineError('DESTINATION_UNREACHABLE', {
        message: 'The folder of the destination does not exist on this device.',
      });
    }
  }
  try {
    await initRepository(engine, repository, { ...options, chunkedLike });
    return 'made';
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'REPOSITORY_EXISTS') throw error;
    return 'existed';
  }
}

/** restic tries for a quarter of an hour to delete what it may not delete. */
const INDEX_MS = 5 * 60_000;

/**
 * A repository without a snapshot that is there already has the packs of a backup that was interrupted. Without an index
 * that names them they would be sent again (docs/decisions/backup-on-devices.md). The backup is made in any case.
 */
async function indexWhatIsThere(
  { engine, repository, options }: RepositoryWork,
  warn: (message: string) => void,
): Promise<void> {
  const signal = AbortSignal.any([options.signal, clock.timeoutSignal(INDEX_MS)]);
  try {
    await rebuildIndex(engine, repository, {}, { ...options, signal });
  } catch (error) {
    options.signal.throwIfAborted();
    warn(`The index of an interrupted backup could not be written: ${String(error)}`);
  }
}

/** The repository can be used in spite of these. */
const IGNORED = new Set<string>(['DESTINATION_DENIED', 'REPOSITORY_LOCKED']);

/**
 * The store of the server removes the locks of a job by itself. Elsewhere only this machine knows that nothing of its
 * own is running: the agent works with one repository at a time.
 */
async function removeOwnLocks({ engine, repository, options }: RepositoryWork): Promise<void> {
  if (repository.destination.type === 'rest') return;
  try {
    await unlockOwn(engine, repository, {}, options);
  } catch (error) {
    if (!(error instanceof EngineError) || !IGNORED.has(error.code)) throw error;
  }
}

import { stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  type Engine,
  EngineError,
  initRepository,
  rebuildIndex,
  Repository,
  type RunOptions,
  unlockOwn,
  Destination,
  type backup,
  type EngineProgress,
  type PathReport,
} from '../../engine/index.ts';
import {
  type BackupRepositoryAccess,
  type SecretRef,
  AgentErrorCode,
  type BackupDestination,
  type BackupResult,
  NAMED_PATHS_MAX,
  PATH_TEXT_MAX,
  PROGRESS_PATH_MAX,
} from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import type { BackupParts } from './local-engine.ts';
import { openRoute } from './rest-source.ts';
import os from 'node:os';
import { firstCharacters } from '../core/plain-text.ts';
import type { Progress } from '../work/handler.ts';

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

/** The cleanup after restic was stopped. The agent waits for it when it stops. */
const UNLOCK_MS = 6000;

/**
 * Runs work on the repository of a command, and leaves no lock behind. restic removes its locks when it is
 * interrupted, but not while it creates them, and not if it is killed.
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
  /** The route to it. */
  proxy: string | undefined;
}

interface VaultWork {
  engine: Engine;
  source: VaultSide;
  vault: VaultSide;
  options: RunOptions & { signal: AbortSignal };
}

interface VaultCommand {
  payload: { source: BackupRepositoryAccess; vault: BackupRepositoryAccess; timeoutSeconds: number };
  context: RepositoryCommand['context'];
}

/** The same with a repository and its copy. A new copy gets the chunking parameters of the original. */
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

/** The route to a repository, which is open until `close` is called. */
export async function openRepository(
  { server, network, folder }: BackupParts,
  wanted: BackupRepositoryAccess,
  secret: (ref: SecretRef) => string,
): Promise<VaultSide & { close: () => void }> {
  const access = repositoryOf(wanted, { server, secret });
  const { destination, proxy, close } = await openRoute(network, access.destination, folder);
  return { repository: { ...access, destination }, proxy, close };
}

/** Removes the locks of this machine before the work, and after it if it was stopped. */
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
 * A repository that had snapshots is never created again: if it is missing, a disk is not mounted. For the same reason
 * the folder of a new one must exist.
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

/** restic retries for a quarter of an hour to delete a file that it may not delete. */
const INDEX_MS = 5 * 60_000;

/**
 * An existing repository without a snapshot contains the packs of an interrupted backup. Without an index that names
 * them they would be uploaded again (docs/decisions/backup-restores.md). The backup is made in any case.
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

/** Errors in spite of which the repository can be used. */
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

interface AccessParts {
  /** The address of the server that this machine is enrolled at. */
  server: string;
  secret: (ref: SecretRef) => string;
}

/** The address and the keys of the repository, with the secrets of the command. Throws `INVALID_PAYLOAD`. */
function repositoryOf(access: BackupRepositoryAccess, parts: AccessParts): Repository {
  const { destination, password, keyHint } = access;
  return checked(Repository, {
    destination: destinationOf(destination, parts),
    password: parts.secret(password),
    keyHint,
  });
}

export function destinationOf(destination: BackupDestination, { server, secret }: AccessParts): Destination {
  if (destination.type === 'local') return checked(Destination, destination);
  if (destination.type === 's3') {
    const { accessKey, secret: ref, ...bucket } = destination;
    return checked(Destination, { ...bucket, accessKeyId: accessKey, secretAccessKey: secret(ref) });
  }
  const url = new URL(server);
  // Only the path is taken from the command, so it cannot lead to another server.
  url.pathname = destination.path;
  const { user } = destination;
  return checked(Destination, { type: 'rest', url: url.href, user, password: secret(destination.secret) });
}

function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  // The message names the field and the rule, and never the value, which may be a secret.
  throw new AgentError(
    AgentErrorCode.invalidPayload,
    `repository: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`,
  );
}

/** Tags and options that every backup shares. */

/** With this tag, the server finds the snapshot of a job whose result it has never received. */
export const jobTag = (jobId: string) => `muster-job-${jobId}`;

/** For a disk or a share: only this machine can measure that it is nearly full. */
export async function destinationRoom({
  destination,
}: Repository): Promise<Pick<BackupResult, 'destinationRoom'>> {
  if (destination.type !== 'local') return {};
  try {
    const { bavail, blocks, bsize } = await statfs(destination.path);
    return { destinationRoom: { freeBytes: bavail * bsize, totalBytes: blocks * bsize } };
  } catch {
    // The backup was made, even if the free space is unknown.
    return {};
  }
}

export function processorsFor(percent: number | undefined): number | undefined {
  return percent === undefined ? undefined : Math.max(1, Math.floor((os.cpus().length * percent) / 100));
}

/** The restic result in the form of the protocol. */
export const resultOf = (
  { status, snapshotId, unreadable, ...made }: Awaited<ReturnType<typeof backup>>,
  takenAt: string,
): BackupResult => ({
  status,
  snapshotId,
  takenAt,
  filesNew: made.filesNew,
  filesChanged: made.filesChanged,
  filesUnmodified: made.filesUnmodified,
  bytesProcessed: made.bytesProcessed,
  bytesAdded: made.bytesAdded,
  seconds: made.seconds,
  unreadable: namedPaths(unreadable),
});

/** The restic progress in the form of the protocol. */

/** `done`, `total` and `rate` are in bytes. */
export function progressOf(progress: EngineProgress): Progress {
  const { phase, percent, bytes, totalBytes, rate, etaSeconds, files, totalFiles, currentFile } = progress;
  return {
    phase,
    done: bytes,
    filesDone: files,
    ...(percent === null ? {} : { percent }),
    ...(totalBytes === null ? {} : { total: totalBytes }),
    ...(rate === null ? {} : { rate }),
    ...(etaSeconds === null ? {} : { etaSeconds }),
    ...(totalFiles === null ? {} : { filesTotal: totalFiles }),
    ...(currentFile === null ? {} : { path: firstCharacters(currentFile, PROGRESS_PATH_MAX) }),
  };
}

const REASON_MAX = 500;

interface NamedPaths {
  count: number;
  paths: { path: string; message: string }[];
}

/** The first paths of a report, with a reason for each. The count is the total number. */
export function namedPaths({ paths, count }: PathReport): NamedPaths {
  return {
    count,
    paths: paths.slice(0, NAMED_PATHS_MAX).map(({ path, reason }) => ({
      path: firstCharacters(path, PATH_TEXT_MAX),
      message: reason === '' ? 'restic has not said why' : firstCharacters(reason, REASON_MAX),
    })),
  };
}

import { clock, type Timer } from '../../clock.ts';
import { type EngineCode, EngineError, openRepository, type RepositoryReader } from '../../engine/index.ts';
import { ConcurrencyLimiter } from '../../platform/concurrency.ts';
import type { DetachedContext } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { AppError, type ErrorCode, notFound } from '../../platform/errors.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BackupRepository, indexState, type ObjectStorage, storeSource } from '../backup-store/index.ts';
import { passwordsOf, type RepositoryPassword } from './repository-access.ts';
import type { BackupSnapshot } from './snapshot.model.ts';
import { findSnapshot } from './snapshot.service.ts';

/** How the failures of the server's own engine are answered. All others mean that it cannot be done now. */
const CODES: Partial<Record<EngineCode, ErrorCode>> = {
  FILE_SYSTEM_DAMAGED: 'conflict',
  FILE_SYSTEM_UNSUPPORTED: 'conflict',
  PATH_MISSING: 'not_found',
  SNAPSHOT_MISSING: 'not_found',
  REPOSITORY_LOCKED: 'conflict',
  REPOSITORY_DAMAGED: 'conflict',
  WRONG_KEY: 'conflict',
  ENGINE_MISSING: 'server_engine_missing',
};

/** The codes that `mapEngineErrors` gives beside `not_found`. */
export const ENGINE_ERRORS = ['conflict', 'unavailable'] as const satisfies readonly ErrorCode[];

/** Runs work of the engine, whose failures become answers; `details.code` is the engine's own. */
export async function mapEngineErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toApiError(error);
  }
}

export function toApiError(error: unknown): unknown {
  if (!(error instanceof EngineError)) return error;
  const { code, message } = error;
  return new AppError(CODES[code] ?? 'unavailable', message, { details: { code }, cause: error });
}

export type ReadableRepository = Pick<
  BackupRepository,
  'id' | 'orgId' | 'provider' | 'encryptionKeyId' | 'keyVersion' | 'engineKeyId' | 'purgedThrough'
>;

interface Parts {
  db: Db;
  storage: ObjectStorage;
  encryptor: Encryptor;
}

/** A reader, and what has opened the repository as it was then. */
export interface OpenedRepository {
  reader: RepositoryReader;
  access: RepositoryPassword;
}

interface KeptReader {
  opening: Promise<OpenedRepository>;
  /** Known once it is open. */
  bytes: number;
  expiry: Timer;
}

const KEPT_MAX = 12;
const KEPT_BYTES_MAX = 384 * 1024 * 1024;
const IDLE_MS = 300_000;
/** Folders of all snapshots of a repository: with them the largest reader takes some 250 MB. */
const FOLDERS_MAX = 2_000_000;

/** Opening one derives a key, in 32 MB, and reads an index. */
const OPENING_MAX = 3;
const OPENING_OF_ORGANIZATION = 2;
const OPENING_WAIT_MS = 20_000;

/**
 * Readers of repositories in Muster's own store, opened when a snapshot is browsed and kept while it is. A reader is of
 * one state: the files of the index that are there now, or that were there at a time.
 */
export class RepositoryReaders {
  readonly #parts: Parts;
  /** In the order of their last use. */
  readonly #kept = new Map<string, KeptReader>();
  readonly #limiter = new ConcurrencyLimiter({ waitMs: OPENING_WAIT_MS });

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get keptBytes(): number {
    return [...this.#kept.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Throws `conflict` if the repository is not in the store, or if its state at that time is gone. */
  async open(repository: ReadableRepository, asOf: Date | null): Promise<OpenedRepository> {
    assertReadable(repository, asOf);
    const key = `${repository.id} ${await indexState(this.#parts.db, repository.id, asOf)}`;
    const kept = this.#kept.get(key) ?? this.#begin(key, repository, asOf);
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    kept.expiry.refresh();
    return kept.opening;
  }

  #begin(key: string, repository: ReadableRepository, asOf: Date | null): KeptReader {
    const kept: KeptReader = {
      opening: this.#open(repository, asOf),
      bytes: 0,
      expiry: clock.setTimeout(() => this.#forget(key, kept), IDLE_MS).unref(),
    };
    kept.opening.then(
      ({ reader }) => {
        kept.bytes = reader.memoryBytes;
        this.#makeRoom();
      },
      () => this.#forget(key, kept),
    );
    return kept;
  }

  #forget(key: string, kept: KeptReader): void {
    clock.clear(kept.expiry);
    if (this.#kept.get(key) === kept) this.#kept.delete(key);
  }

  /** The one that was used last always stays. */
  #makeRoom(): void {
    for (const [key, kept] of this.#kept) {
      const isRoom = this.#kept.size <= KEPT_MAX && this.keptBytes <= KEPT_BYTES_MAX;
      if (isRoom || this.#kept.size === 1) return;
      this.#forget(key, kept);
    }
  }

  #open(repository: ReadableRepository, asOf: Date | null): Promise<OpenedRepository> {
    const source = storeSource(this.#parts, { repositoryId: repository.id, asOf });
    const shares = [
      { key: `organization ${repository.orgId}`, max: OPENING_OF_ORGANIZATION },
      { key: 'all', max: OPENING_MAX },
    ];
    return this.#limiter.run(shares, async () => {
      for (const access of await passwordsOf(this.#parts, repository)) {
        try {
          return { access, reader: await openRepository(source, access, { maxBlobs: FOLDERS_MAX }) };
        } catch (error) {
          if (!(error instanceof EngineError) || error.code !== 'WRONG_KEY') throw error;
        }
      }
      throw new EngineError('WRONG_KEY', { message: 'None of the stored keys opens the repository.' });
    });
  }
}

function assertReadable({ provider, purgedThrough }: ReadableRepository, asOf: Date | null): void {
  if (provider !== 'server') {
    throw new AppError(
      'conflict',
      'The data of this snapshot is not on this server. Restore it with restic, as the recovery kit describes.',
      { details: { code: 'PROVIDER_UNSUPPORTED' } },
    );
  }
  if (asOf !== null && purgedThrough !== null && asOf < purgedThrough) {
    throw new AppError(
      'conflict',
      `What was deleted before ${purgedThrough.toISOString()} is gone. Choose a later time.`,
    );
  }
}

/** A snapshot that the caller may see, with its repository as it is or was. */
export interface SnapshotState {
  snapshot: BackupSnapshot;
  repository: BackupRepository;
  asOf: Date | null;
}

export interface SnapshotQuery {
  id: string;
  asOf?: Date | undefined;
}

/** Throws `conflict` if the snapshot was not in the repository at that time. */
export async function findState(ctx: DetachedContext, { id, asOf }: SnapshotQuery): Promise<SnapshotState> {
  return ctx.withTenant(async (tenant) => {
    const snapshot = await findSnapshot(tenant, id);
    const repository = await BackupRepository.query(tenant.tx).findById(snapshot.repositoryId);
    if (repository === undefined) throw notFound('Repository');
    assertPresent(snapshot, asOf);
    return { snapshot, repository, asOf: asOf ?? null };
  });
}

export function assertPresent(
  { receivedAt, removedAt }: Pick<BackupSnapshot, 'receivedAt' | 'removedAt'>,
  asOf: Date | undefined,
): void {
  if (asOf !== undefined && receivedAt > asOf) {
    throw new AppError('conflict', `The store received the snapshot later, at ${receivedAt.toISOString()}.`);
  }
  if (removedAt !== null && (asOf === undefined || removedAt <= asOf)) {
    throw new AppError(
      'conflict',
      `The snapshot was removed at ${removedAt.toISOString()}. Ask with asOf for a time before that.`,
    );
  }
}

/** The same with a reader of it. */
export async function openSnapshot(
  ctx: DetachedContext,
  query: SnapshotQuery,
  readers: RepositoryReaders,
): Promise<SnapshotState & OpenedRepository> {
  return openState(await findState(ctx, query), readers);
}

export async function openState(
  state: SnapshotState,
  readers: RepositoryReaders,
): Promise<SnapshotState & OpenedRepository> {
  const opened = await mapEngineErrors(() => readers.open(state.repository, state.asOf));
  return { ...state, ...opened };
}

import { clock, type Timer } from '../../../clock.ts';
import { EngineError, openRepository, type RepositoryReader } from '../../../engine/index.ts';
import { ConcurrencyLimiter } from '../../../platform/concurrency-limiter.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { AppError } from '../../../platform/errors.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { passwordsOf, type RepositoryPassword } from '../access/repository-passwords.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';
import { indexState } from '../store/records/objects.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';
import { storeSource } from '../store/records/store-source.ts';

export type ReadableRepository = Pick<
  BackupRepository,
  'id' | 'orgId' | 'provider' | 'encryptionKeyId' | 'keyVersion' | 'engineKeyId' | 'purgedThrough'
>;

interface Parts {
  db: Db;
  storage: ObjectStorage;
  sealer: Sealer;
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

  /** Throws `conflict` where the repository is not in the store, or where its state at that time is gone. */
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

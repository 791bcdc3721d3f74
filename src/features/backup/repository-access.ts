import { clock } from '../../clock.ts';
import {
  type Engine,
  openEngine,
  probeEngine,
  type Repository,
  EngineError,
  newKeyFile,
  newRepository,
  openConfig,
} from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import type { BackupDestination, BackupRepositoryAccess, CommandSecrets } from '../../protocol/index.ts';
import {
  BackupRepository,
  beginPrune,
  endCredential,
  endPrune,
  extendCredential,
  extendPrune,
  issueCredential,
  type NewCredential,
  discardObject,
  findObject,
  type ObjectStorage,
  putObject,
  type StoreAccess,
  storeSource,
} from '../backup-store/index.ts';
import { isInBucket, type StoredDetails } from './config.schema.ts';
import { EncryptionKeyVersion, passwordOf } from './key.model.ts';
import { buffer } from 'node:stream/consumers';

/** For how long devices are kept out at a time. A server that dies keeps them out no longer than this. */
const EXCLUSIVE_MS = 3 * 60_000;
const RENEW_MS = 45_000;

/**
 * Keeps devices out of a repository for as long as the work takes, and aborts the work if that cannot be had any
 * longer. Throws `conflict` while a device writes.
 */
export async function exclusively(
  db: Db,
  repositoryId: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const until = () => new Date(clock.now() + EXCLUSIVE_MS);
  await withSystem(db, 'keep devices out of a repository', (tx) => beginPrune(tx, repositoryId, until()));
  const lost = new AbortController();
  const renewal = clock.setInterval(() => {
    withSystem(db, 'keep devices out for longer', (tx) => extendPrune(tx, repositoryId, until())).catch(
      (error: unknown) => lost.abort(error),
    );
  }, RENEW_MS);
  try {
    await work(AbortSignal.any([signal, lost.signal]));
  } finally {
    clock.clear(renewal);
    await withSystem(db, 'let devices in again', (tx) => endPrune(tx, repositoryId));
  }
}

export interface RepositoryPassword {
  password: string;
  /** The hint of the key version that opens the repository now, if that is known. */
  keyHint?: string;
}

type Opened = Pick<BackupRepository, 'id' | 'encryptionKeyId' | 'keyVersion' | 'engineKeyId'>;

/** More versions than a repository can need: an earlier state of it is kept for some weeks. */
const VERSIONS_MAX = 20;

/**
 * The passwords that may open a repository, the likeliest first: that of now, then all versions of its key from the newest
 * on, because an earlier state opens with an earlier one.
 * @param tx  across tenants: the key can be of another organization, which the device of the repository has left
 */
async function repositoryPasswords(
  tx: Tx,
  { encryptionKeyId, keyVersion, engineKeyId }: Omit<Opened, 'id'>,
  encryptor: Encryptor,
): Promise<RepositoryPassword[]> {
  if (encryptionKeyId === null) return [];
  const versions = await EncryptionKeyVersion.query(tx)
    .where('key_id', encryptionKeyId)
    .orderByRaw('version = ? desc nulls last, version desc', [keyVersion])
    .limit(VERSIONS_MAX);
  return versions.flatMap((version) => {
    const password = passwordOf(encryptor, version);
    if (version.version !== keyVersion) return [{ password }];
    const now = { password, ...omitUndefined({ keyHint: engineKeyId ?? undefined }) };
    // An earlier state can have the same password in another key.
    return now.keyHint === undefined ? [now] : [now, { password }];
  });
}

/** The same, in a transaction of its own. */
export const passwordsOf = (
  { db, encryptor }: { db: Db; encryptor: Encryptor },
  repository: Omit<Opened, 'id'>,
): Promise<RepositoryPassword[]> =>
  withSystem(db, 'open a repository whose key may be of another organization', (tx) =>
    repositoryPasswords(tx, repository, encryptor),
  );

/** The key that opens a repository now. Throws if its record names none. */
export async function repositoryPassword(
  tx: Tx,
  repository: Opened,
  encryptor: Encryptor,
): Promise<RepositoryPassword> {
  const [now] = repository.keyVersion === null ? [] : await repositoryPasswords(tx, repository, encryptor);
  if (now === undefined) throw new Error(`the repository ${repository.id} has no key`);
  return now;
}

/** restic on the machine of the server. It is looked for when it is first needed, and again if it was missing. */
export class ServerEngine {
  readonly #folder: string;
  readonly #searchPath: string;
  #opened: Promise<Engine> | undefined;

  constructor({ folder, searchPath }: { folder: string; searchPath: string }) {
    this.#folder = folder;
    this.#searchPath = searchPath;
  }

  /** Throws an `EngineError` with ENGINE_MISSING or ENGINE_TOO_OLD. */
  open(): Promise<Engine> {
    this.#opened ??= this.#find().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #find(): Promise<Engine> {
    const program = await probeEngine({ searchPath: this.#searchPath });
    return openEngine(program, { folder: this.#folder, host: { PATH: this.#searchPath } });
  }
}

/** The access of the server itself to repositories of its store. */
export interface RepositoryAccessParts {
  db: Db;
  secrets: Encryptor;
  engine: ServerEngine;
  /** The address of this server on its own machine. */
  loopbackUrl: string;
}

interface WantedAccess extends Pick<NewCredential, 'jobId' | 'asOf'> {
  repositoryId: string;
  role: Exclude<NewCredential['role'], 'device' | 'vault'>;
  /** After so long without a renewal the credential expires. */
  lifetimeMs?: number;
}

/**
 * Of a server that is killed, the credential has to expire well before devices are let in again (`exclusively`): restic
 * goes on without the server, and what it deletes may be what a new backup has just found. The locks count as long too.
 */
const LIFETIME_MS = 90_000;

/**
 * Opens a repository of the backup store for work of the server, which ends with `work`. Throws `not_found`, and an
 * `EngineError` if restic is missing.
 */
export async function withRepository<T>(
  { db, secrets, engine, loopbackUrl }: RepositoryAccessParts,
  { repositoryId, role, jobId, asOf, lifetimeMs = LIFETIME_MS }: WantedAccess,
  work: (engine: Engine, repository: Repository) => Promise<T>,
): Promise<T> {
  const opened = await engine.open();
  const until = () => new Date(clock.now() + lifetimeMs);
  const { credential, password, keyHint } = await withSystem(
    db,
    'open a repository for the server itself',
    async (tx) => {
      const repository = await BackupRepository.query(tx).findById(repositoryId);
      if (repository === undefined) throw notFound('Repository');
      return {
        ...(await repositoryPassword(tx, repository, secrets)),
        credential: await issueCredential(tx, {
          repositoryId,
          role,
          expiresAt: until(),
          ...omitUndefined({ jobId, asOf }),
        }),
      };
    },
  );
  const renewal = clock.setInterval(() => {
    // If the database is away for too long, the store refuses what restic asks next, and the work fails.
    withSystem(db, 'keep the access of the server to a repository', (tx) =>
      extendCredential(tx, credential.id, until()),
    ).catch(() => {});
  }, lifetimeMs / 4);
  try {
    return await work(opened, {
      destination: {
        type: 'rest',
        url: loopbackUrl + storePath(repositoryId),
        user: credential.user,
        password: credential.secret,
      },
      password,
      ...omitUndefined({ keyHint }),
      ...(role === 'server' ? {} : { isReadOnly: true }),
    });
  } finally {
    clock.clear(renewal);
    await withSystem(db, 'end the access of the server to a repository', (tx) =>
      endCredential(tx, credential.id),
    );
  }
}

/** The address at which the backup store serves a repository. */
export const storePath = (repositoryId: string) => `/backup-store/${repositoryId}/`;

/** The access of a device to a repository. The secrets are in `values` only. */
export interface DeviceAccess {
  repository: BackupRepositoryAccess;
  values: CommandSecrets;
  credentialId: string | null;
}

/** The location of a repository that is not in the backup store. */
export interface PlaceElsewhere {
  details: StoredDetails;
  secret: string | undefined;
  /** The device makes the repository if there is none. */
  isNew: boolean;
}

interface Wanted extends Pick<NewCredential, 'role' | 'expiresAt'> {
  jobId: string;
  repository: BackupRepository;
  /** Called if the repository is not in the backup store. */
  elsewhere: () => Promise<PlaceElsewhere>;
}

/** `undefined` while the repository is being pruned. */
export async function accessOfDevice(
  tx: Tx,
  { repository, role, jobId, expiresAt, elsewhere }: Wanted,
  encryptor: Encryptor,
): Promise<DeviceAccess | undefined> {
  const { password, keyHint } = await repositoryPassword(tx, repository, encryptor);
  const [passwordRef, destinationRef] = [newId(), newId()];
  const common = { password: { secretRef: passwordRef }, ...omitUndefined({ keyHint }) };
  if (repository.provider === 'server') {
    const credential = await issueCredential(tx, {
      repositoryId: repository.id,
      role,
      jobId,
      expiresAt,
    }).catch((error: unknown) => {
      if (error instanceof AppError && error.code === 'conflict') return undefined;
      throw error;
    });
    if (credential === undefined) return undefined;
    const destination: BackupDestination = {
      type: 'server',
      path: storePath(repository.id),
      user: credential.user,
      secret: { secretRef: destinationRef },
    };
    return {
      repository: { destination, ...common },
      values: { [passwordRef]: password, [destinationRef]: credential.secret },
      credentialId: credential.id,
    };
  }
  const { details, secret, isNew } = await elsewhere();
  return {
    repository: {
      destination: destinationOnDevice({ details }, repository.id, destinationRef),
      ...common,
      isNew,
    },
    values: { [passwordRef]: password, ...(secret === undefined ? {} : { [destinationRef]: secret }) },
    credentialId: null,
  };
}

/** A bucket or a folder, in which each repository has a place of its own. */
export function destinationOnDevice(
  { details }: { details: StoredDetails },
  repositoryId: string,
  secretRef: string,
): BackupDestination {
  if (isInBucket(details)) {
    const { bucket, region, endpoint = `https://s3.${region}.amazonaws.com`, prefix, accessKey } = details;
    return {
      type: 's3',
      endpoint,
      bucket,
      prefix: prefix === undefined ? repositoryId : `${prefix}/${repositoryId}`,
      ...omitUndefined({ region }),
      accessKey,
      secret: { secretRef },
    };
  }
  if (!('path' in details)) throw new Error('the backup store is no destination on a device');
  const separator = details.path.startsWith('/') ? '/' : '\\';
  const isClosed = details.path.endsWith('/') || details.path.endsWith('\\');
  return { type: 'local', path: `${details.path}${isClosed ? '' : separator}${repositoryId}` };
}

// The keys of repositories in the backup store, which the server writes and removes without restic.

interface StoreParts {
  db: Db;
  storage: ObjectStorage;
}

const CONFIG = { type: 'config', name: 'config' } as const;

/** By these names in the clear, a key of a repository shows which version of the encryption key it is. */
export const keyLabel = (version: number) => ({ user: 'muster', host: `v${version}` });

/** Throws WRONG_KEY if the password opens none of the keys of the repository. */
export async function openStoredConfig({ db, storage }: StoreParts, repositoryId: string, password: string) {
  const stream = await storage.read(repositoryId, { ...CONFIG, trashedAt: null }, undefined);
  if (stream === undefined) throw new EngineError('REPOSITORY_MISSING');
  const source = storeSource({ db, storage }, { repositoryId, asOf: null });
  return openConfig(source, await buffer(stream), { password });
}

/** Lets a password open the repository, beside the one that opens it now. Can be repeated. Answers the id of its key. */
export async function addKey(
  parts: StoreParts,
  access: Pick<StoreAccess, 'repositoryId' | 'credentialId'>,
  { now, next, version }: { now: string; next: string; version: number },
): Promise<string> {
  const { repositoryId } = access;
  const opened = await openStoredConfig(parts, repositoryId, next).catch(unlessWrong);
  if (opened !== undefined) return opened.keyId;
  const { master } = await openStoredConfig(parts, repositoryId, now);
  const key = await newKeyFile(master, { password: next, label: keyLabel(version) });
  await putObject(parts, access, { type: 'keys', name: key.id }, key.content);
  return key.id;
}

/** Moves every other key to the trash. */
export async function keepOneKey(
  { db, storage }: StoreParts,
  repositoryId: string,
  keyId: string,
): Promise<void> {
  for await (const { name } of storeSource({ db, storage }, { repositoryId, asOf: null }).list('key')) {
    if (name !== keyId) await discardObject({ db, storage }, repositoryId, { type: 'keys', name });
  }
}

function unlessWrong(error: unknown): undefined {
  if (error instanceof EngineError && error.code === 'WRONG_KEY') return undefined;
  throw error;
}

/** The parts for writing into repositories of the backup store without restic. */
export interface OwnAccessParts {
  db: Db;
  storage: ObjectStorage;
  secrets: Encryptor;
}

/**
 * Makes a repository of the backup store that restic can open. It can be repeated after it was interrupted anywhere, and
 * two attempts at once make one repository. Answers the id of the only key of the repository.
 * @param polynomial  how the chunks of a repository are cut whose copies this one is to hold
 */
export async function makeRepository(
  parts: OwnAccessParts,
  repository: BackupRepository,
  { polynomial, jobId }: { polynomial?: string | undefined; jobId?: string } = {},
): Promise<string> {
  const { id, keyVersion } = repository;
  return withOwnAccess(parts, repository, omitUndefined({ jobId }), async (access, password) => {
    if ((await findObject(parts.db, id, CONFIG)) === undefined) {
      const { key, config } = await newRepository({ password, label: keyLabel(keyVersion ?? 1), polynomial });
      await putObject(parts, access, { type: 'keys', name: key.id }, key.content);
      await putObject(parts, access, CONFIG, config);
    }
    // Another attempt may have made the repository. Then the key of this one opens nothing.
    const { keyId } = await openStoredConfig(parts, id, password);
    await keepOneKey(parts, id, keyId);
    return keyId;
  });
}

/** How the chunks of a repository of the backup store are cut. */
export async function polynomialOf(parts: OwnAccessParts, repository: BackupRepository): Promise<string> {
  const { password } = await withSystem(parts.db, 'read how the chunks of a repository are cut', (tx) =>
    repositoryPassword(tx, repository, parts.secrets),
  );
  return (await openStoredConfig(parts, repository.id, password)).polynomial;
}

const OWN_LIFETIME_MS = 60_000;

/** For writes of the server itself into a repository, with the password that opens it now. */
export async function withOwnAccess<T>(
  { db, secrets }: OwnAccessParts,
  repository: BackupRepository,
  more: { jobId?: string },
  work: (access: Pick<StoreAccess, 'repositoryId' | 'credentialId'>, password: string) => Promise<T>,
): Promise<T> {
  const { id: repositoryId } = repository;
  const { password, credential } = await withSystem(
    db,
    'write into a repository of the backup store',
    async (tx) => ({
      ...(await repositoryPassword(tx, repository, secrets)),
      credential: await issueCredential(tx, {
        repositoryId,
        role: 'server',
        expiresAt: new Date(clock.now() + OWN_LIFETIME_MS),
        ...more,
      }),
    }),
  );
  try {
    return await work({ repositoryId, credentialId: credential.id }, password);
  } finally {
    await withSystem(db, 'end what the server writes into a repository', (tx) =>
      endCredential(tx, credential.id),
    );
  }
}

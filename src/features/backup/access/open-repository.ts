import { clock } from '../../../clock.ts';
import type { Engine, Repository } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { notFound } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import {
  endCredential,
  extendCredential,
  issueCredential,
  type NewCredential,
} from '../store/records/credentials.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { repositoryPassword } from './repository-passwords.ts';
import type { ServerEngine } from './server-engine.ts';

/** What the server itself needs to work in repositories of its store. */
export interface RepositoryAccessParts {
  db: Db;
  secrets: Sealer;
  engine: ServerEngine;
  /** The address of this server on its own machine. */
  loopbackUrl: string;
}

export interface WantedAccess extends Pick<NewCredential, 'jobId' | 'asOf'> {
  repositoryId: string;
  role: Exclude<NewCredential['role'], 'device' | 'vault'>;
  /** After so long without a renewal the credential expires. */
  lifetimeMs?: number;
}

/**
 * Of a server that is killed, the credential has to expire well before devices are let in again (`exclusively`): restic
 * goes on without the server, and what it deletes may be what a new backup has just found. The locks count as long too.
 */
const LIFETIME_MS = 3 * 60_000;

/**
 * Opens a repository of the backup store for work of the server, which ends with `work`. Throws `not_found`, and an
 * `EngineError` where restic is missing.
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
    // Where the database is away for too long, the store refuses what restic asks next, and the work fails.
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

/** Where the backup store serves a repository. */
export const storePath = (repositoryId: string) => `/backup-store/${repositoryId}/`;

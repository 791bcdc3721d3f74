import { clock } from '../../../clock.ts';
import { newRepository } from '../../../engine/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';
import { endCredential, issueCredential, type StoreAccess } from '../store/records/credentials.ts';
import { findObject } from '../store/records/objects.ts';
import { putObject } from '../store/records/own-objects.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';
import { CONFIG, keepOneKey, keyLabel, openStoredConfig } from './repository-keys.ts';
import { repositoryPassword } from './repository-passwords.ts';

/** What it takes to write into repositories of the backup store without restic. */
export interface OwnAccessParts {
  db: Db;
  storage: ObjectStorage;
  secrets: Sealer;
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

const LIFETIME_MS = 60_000;

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
        expiresAt: new Date(clock.now() + LIFETIME_MS),
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

import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { passwordOf } from '../keys/key-material.ts';
import { EncryptionKeyVersion } from '../keys/key.model.ts';
import type { BackupRepository } from '../repositories/repository.model.ts';

export interface RepositoryPassword {
  password: string;
  /** Of the version that the repository opens with now, where that is known. */
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
  sealer: Sealer,
): Promise<RepositoryPassword[]> {
  if (encryptionKeyId === null) return [];
  const versions = await EncryptionKeyVersion.query(tx)
    .where('key_id', encryptionKeyId)
    .orderByRaw('version = ? desc nulls last, version desc', [keyVersion])
    .limit(VERSIONS_MAX);
  return versions.flatMap((version) => {
    const password = passwordOf(sealer, version);
    if (version.version !== keyVersion) return [{ password }];
    const now = { password, ...omitUndefined({ keyHint: engineKeyId ?? undefined }) };
    // An earlier state can have the same password in another key.
    return now.keyHint === undefined ? [now] : [now, { password }];
  });
}

/** The same, in a transaction of its own. */
export const passwordsOf = (
  { db, sealer }: { db: Db; sealer: Sealer },
  repository: Omit<Opened, 'id'>,
): Promise<RepositoryPassword[]> =>
  withSystem(db, 'open a repository whose key may be of another organization', (tx) =>
    repositoryPasswords(tx, repository, sealer),
  );

/** What opens a repository now. Throws where its record names no key. */
export async function repositoryPassword(
  tx: Tx,
  repository: Opened,
  sealer: Sealer,
): Promise<RepositoryPassword> {
  const [now] = repository.keyVersion === null ? [] : await repositoryPasswords(tx, repository, sealer);
  if (now === undefined) throw new Error(`the repository ${repository.id} has no key`);
  return now;
}

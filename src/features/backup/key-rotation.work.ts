import { EngineError } from '../../../engine/index.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { notFound } from '../../../platform/errors.ts';
import { passwordOf } from '../keys/key-material.ts';
import { EncryptionKey, EncryptionKeyVersion } from '../keys/key.model.ts';
import { exclusively } from '../access/exclusive.ts';
import { type OwnAccessParts, withOwnAccess } from '../access/make-repository.ts';
import { addKey, keepOneKey, openStoredConfig } from '../access/repository-keys.ts';
import { BackupRepository } from '../repositories/repository.model.ts';

/**
 * Opens a repository to the newest version of its key, and closes it to all others. It can be interrupted anywhere and
 * repeated: at every moment the version that the record names opens it. Throws `conflict` while a device writes, which
 * has the earlier version; the first half is done then. A device that went away in the middle of a backup loses its
 * access after an hour, so that a rotation ends without it.
 */
export async function rotateRepository(
  parts: OwnAccessParts,
  repositoryId: string,
  signal: AbortSignal,
): Promise<void> {
  const { repository, version, password } = await readVersions(parts, repositoryId);
  assertGoing(signal);
  if (repository.keyVersion !== version) {
    const engineKeyId = await withOwnAccess(parts, repository, {}, (access, now) =>
      addKey(parts, access, { now, next: password, version }),
    );
    await withSystem(parts.db, 'note the version of the key that opens a repository', (tx) =>
      BackupRepository.query(tx)
        .findById(repositoryId)
        .patch({ keyVersion: version, engineKeyId, hasOldKeys: true }),
    );
  } else if (!repository.hasOldKeys) return;

  await withSystem(parts.db, 'end the access of a device that went away', (tx) =>
    endAbandoned(tx, repositoryId),
  );
  await exclusively(parts.db, repositoryId, signal, async (stop) => {
    const { keyId } = await openStoredConfig(parts, repositoryId, password);
    assertGoing(stop);
    await keepOneKey(parts, repositoryId, keyId);
  });
  await withSystem(parts.db, 'note that one version of the key opens a repository', (tx) =>
    BackupRepository.query(tx)
      .findById(repositoryId)
      .where('key_version', version)
      .patch({ hasOldKeys: false }),
  );
}

/** Of a device that is not connected, where nothing has arrived in the store for so long. */
const ABANDONED_AFTER = `interval '1 hour'`;

async function endAbandoned(tx: Tx, repositoryId: string): Promise<void> {
  await tx.raw(
    `update backup_store_credentials c set ended_at = now()
    from backup_repositories r
    where c.repository_id = ? and r.id = c.repository_id and c.role in ('device', 'vault') and c.ended_at is null
      and c.created_at < now() - ${ABANDONED_AFTER}
      and not exists (select from device_presence p where p.device_id = r.device_id
        and (p.state = 'connected' or p.since > now() - ${ABANDONED_AFTER}))
      and not exists (select from backup_objects o where o.repository_id = c.repository_id
        and o.credential_id = c.id and o.arrived_at > now() - ${ABANDONED_AFTER})`,
    [repositoryId],
  );
}

function assertGoing(signal: AbortSignal): void {
  if (signal.aborted) throw new EngineError('CANCELLED');
}

async function readVersions({ db, secrets }: OwnAccessParts, repositoryId: string) {
  return withSystem(
    db,
    'rotate the key of a repository, which can be of another organization',
    async (tx) => {
      const repository = await BackupRepository.query(tx).findById(repositoryId);
      const key = await EncryptionKey.query(tx).findById(repository?.encryptionKeyId ?? repositoryId);
      if (repository === undefined || key === undefined) throw notFound('Repository');
      const newest = await EncryptionKeyVersion.query(tx).findOne({ key_id: key.id, version: key.version });
      if (newest === undefined) throw notFound('Encryption key version');
      return { repository, version: key.version, password: passwordOf(secrets, newest) };
    },
  );
}

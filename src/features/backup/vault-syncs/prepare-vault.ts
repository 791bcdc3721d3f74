import { clock } from '../../../clock.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { makeRepository, polynomialOf, type OwnAccessParts } from '../access/make-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';

/**
 * Makes the repository of a vault in the backup store, where a device may not. Its chunks are cut like those of the
 * repository that it copies, where the server can read that one.
 */
export async function prepareVault(parts: OwnAccessParts, syncId: string): Promise<void> {
  const found = await withSystem(parts.db, 'read the repositories of a vault', async (tx) => {
    const sync = await VaultSync.query(tx).findById(syncId).whereNull('finished_at');
    const vault = sync === undefined ? undefined : await BackupVault.query(tx).findById(sync.vaultId);
    if (vault === undefined) return undefined;
    const source = await BackupRepository.query(tx).findById(vault.sourceRepositoryId);
    const repository = await BackupRepository.query(tx).findById(vault.repositoryId);
    return source === undefined || repository === undefined ? undefined : { source, repository };
  });
  if (found === undefined || found.repository.initializedAt !== null) return;
  const { source, repository } = found;
  const polynomial = source.provider === 'server' ? await polynomialOf(parts, source) : undefined;
  const engineKeyId = await makeRepository(parts, repository, { polynomial });
  await withSystem(parts.db, 'note that the repository of a vault can be opened', (tx) =>
    BackupRepository.query(tx)
      .findById(repository.id)
      .whereNull('initialized_at')
      .patch({ engineKeyId, initializedAt: clock.date() }),
  );
}

import type { Tx } from '../../../platform/db/transaction.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { repositoryPassword } from '../access/repository-passwords.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import type { RestoreSource } from '../restores/restore-access.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { WorkRefused } from './refusal.ts';

/** Of a server: nobody waits for it, so the repository itself is not asked. Throws `WorkRefused`. */
export async function sourceOf(
  tx: Tx,
  { snapshotId, orgId }: { snapshotId: string; orgId: string },
  sealer: Sealer,
): Promise<RestoreSource> {
  const { snapshot, repository } = await storedSnapshot(tx, { snapshotId, orgId });
  return { snapshot, repository, asOf: null, access: await repositoryPassword(tx, repository, sealer) };
}

/** The same without what opens it. Throws `WorkRefused`. */
export async function storedSnapshot(
  tx: Tx,
  { snapshotId, orgId }: { snapshotId: string; orgId: string },
): Promise<{ snapshot: BackupSnapshot; repository: BackupRepository }> {
  const snapshot = await BackupSnapshot.query(tx).findById(snapshotId).where('org_id', orgId);
  if (snapshot === undefined || snapshot.removedAt !== null) {
    throw new WorkRefused('SNAPSHOT_GONE', 'The snapshot was removed.');
  }
  const repository = await BackupRepository.query(tx).findById(snapshot.repositoryId);
  if (repository?.provider !== 'server') {
    throw new WorkRefused('NOT_ON_SERVER', 'The data of the snapshot is not on this server.');
  }
  return { snapshot, repository };
}

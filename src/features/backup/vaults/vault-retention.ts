import type { Tx } from '../../../platform/db/transaction.ts';
import type { SnapshotDetails } from '../../../protocol/index.ts';
import { BackupVault } from './vault.model.ts';

/** A copy, with what is known of the snapshot that it is a copy of. */
export interface HeldCopy {
  id: string;
  engineId: string;
  receivedAt: Date;
  hasLegalHold: boolean;
  immutableUntil: Date | null;
  details: SnapshotDetails | null;
}

/**
 * The copies of a vault in the order of the snapshots that they are copies of. A hold on either of the two counts.
 * `undefined`: the repository is that of no vault.
 */
export async function copiesToKeep(
  tx: Tx,
  repositoryId: string,
): Promise<{ retentionCount: number; copies: HeldCopy[] } | undefined> {
  const vault = await BackupVault.query(tx).findOne({ repository_id: repositoryId });
  if (vault === undefined) return undefined;
  const { rows } = await tx.raw<{ rows: HeldCopy[] }>(
    `select c.id, c.engine_id as "engineId", coalesce(o.received_at, c.received_at) as "receivedAt",
      c.legal_hold or c.in_use or coalesce(o.legal_hold, false) as "hasLegalHold",
      greatest(c.immutable_until, o.immutable_until) as "immutableUntil", c.details
    from backup_snapshots c left join backup_snapshots o on o.id = c.copy_of
    where c.repository_id = ? and c.removed_at is null`,
    [repositoryId],
  );
  return { retentionCount: vault.retentionCount, copies: rows };
}

import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import { VAULT_SYNC_SNAPSHOTS_MAX } from '../../../protocol/index.ts';
import { IS_BEHIND } from '../vaults/lag.ts';
import type { VaultSync } from '../vaults/vault.model.ts';

/** How long a sync waits for its device. */
const EXPIRY = `now() + interval '7 days'`;
const ONCE = 'on conflict (vault_id) where finished_at is null do nothing';

/** A sync that a person wants. `undefined` where one of the vault is in flight. */
export async function addSync(
  tx: Tx,
  vault: { id: string; orgId: string; deviceId: string },
  { snapshotId, createdBy }: { snapshotId: string | null; createdBy: string | null },
): Promise<string | undefined> {
  const { rows } = await tx.raw<{ rows: Pick<VaultSync, 'id'>[] }>(
    `insert into backup_vault_syncs (id, org_id, device_id, vault_id, reason, snapshot_id, created_by, expires_at)
    values (?, ?, ?, ?, 'manual', ?, ?, ${EXPIRY}) ${ONCE} returning id`,
    [newId(), vault.orgId, vault.deviceId, vault.id, snapshotId, createdBy],
  );
  return rows[0]?.id;
}

const ADD = (reason: 'backup' | 'schedule') => `
  insert into backup_vault_syncs (id, org_id, device_id, vault_id, reason, expires_at)
  select new_row_id(), v.org_id, v.device_id, v.id, '${reason}', ${EXPIRY} from backup_vaults v`;

/** After a backup into a repository. A vault whose sync is in flight gets another one with its end. */
export async function addSyncsAfterBackup(tx: Tx, repositoryId: string): Promise<void> {
  await tx.raw(
    `${ADD('backup')} where v.source_repository_id = ? and v.is_active and v.sync_after_backup
      and ${IS_BEHIND} ${ONCE}`,
    [repositoryId],
  );
}

/** For what was backed up while a sync was in flight, and for what was more than one sync takes. */
export async function addFollowingSync(
  tx: Tx,
  { vaultId, wanted }: Pick<VaultSync, 'vaultId' | 'wanted'>,
): Promise<void> {
  const wasFull = wanted.length >= VAULT_SYNC_SNAPSHOTS_MAX;
  await tx.raw(
    `${ADD('backup')} where v.id = ? and v.is_active and (v.sync_after_backup or ?) and ${IS_BEHIND} ${ONCE}`,
    [vaultId, wasFull],
  );
}

/** Those of vaults whose time has come. */
export async function addDueSyncs(tx: Tx, vaultIds: readonly string[]): Promise<void> {
  await tx.raw(`${ADD('schedule')} where v.id = any(?::uuid[]) and v.is_active ${ONCE}`, [[...vaultIds]]);
}

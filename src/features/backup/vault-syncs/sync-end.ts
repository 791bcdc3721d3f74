import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { endCredential } from '../store/records/credentials.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';

const MESSAGE_MAX = 2000;

/** The device can neither read the repository nor write to the vault any more. */
export async function endAccess(tx: Tx, sync: VaultSync): Promise<void> {
  for (const id of [sync.sourceCredentialId, sync.vaultCredentialId]) {
    if (id !== null) await endCredential(tx, id);
  }
}

export async function cancelSyncNow(tx: Tx, sync: VaultSync): Promise<void> {
  await endAccess(tx, sync);
  const at = clock.date();
  await sync
    .$query(tx)
    .patch({ status: 'cancelled', cancelRequestedAt: sync.cancelRequestedAt ?? at, finishedAt: at });
}

/** A vault that is synced by itself is tried again: after one hour, then two, and at last every day. */
export async function failSync(
  tx: Tx,
  sync: VaultSync,
  { code, message, copied = null }: { code: string; message: string; copied?: number | null },
): Promise<void> {
  await endAccess(tx, sync);
  await sync.$query(tx).patch({
    status: 'failed',
    copiedSnapshots: copied,
    errorCode: code.slice(0, 64),
    errorMessage: message.slice(0, MESSAGE_MAX),
    finishedAt: sync.finishedAt ?? clock.date(),
  });
  const [vault, failures] = [
    await BackupVault.query(tx).findById(sync.vaultId),
    await failuresInARow(tx, sync.vaultId),
  ];
  if (vault === undefined || !(vault.syncAfterBackup || vault.schedule !== null)) return;
  const again = new Date(clock.now() + Math.min(24, 2 ** (failures - 1)) * 3_600_000);
  if (vault.nextSyncAt !== null && vault.nextSyncAt < again) return;
  await vault.$query(tx).patch({ nextSyncAt: again });
}

async function failuresInARow(tx: Tx, vaultId: string): Promise<number> {
  const newest = await VaultSync.query(tx)
    .select('status')
    .where('vault_id', vaultId)
    .whereNotNull('finished_at')
    .orderBy('created_at', 'desc')
    .limit(10);
  const success = newest.findIndex(({ status }) => status === 'completed');
  return Math.max(1, success === -1 ? newest.length : success);
}

import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { assertManageable } from '../../organizations/index.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { endInFlight } from './sync.service.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';
import type { DeleteVaultQuery } from '../vaults/vault.schema.ts';
import { findVault } from '../vaults/vault.service.ts';

/**
 * Ends a vault. The copies go the way of snapshots that retention does not keep: in the backup store a prune moves their
 * data to the trash. Copies that are on hold keep the vault from being deleted.
 */
export async function deleteVault(
  ctx: Context,
  id: string,
  { keepSnapshots = false }: DeleteVaultQuery,
  hub: DeviceHub,
) {
  const { tx } = ctx;
  const vault = await findVault(ctx, id);
  await assertManageable(ctx, vault.orgId);
  await BackupVault.query(tx).findById(id).forUpdate();
  const copies = () =>
    BackupSnapshot.query(tx).where('repository_id', vault.repositoryId).whereNull('removed_at');
  const count = await copies().resultSize();
  if (!keepSnapshots) {
    const held = await copies().whereRaw('(legal_hold or in_use or immutable_until > now())').resultSize();
    if (held > 0) {
      throw new AppError(
        'conflict',
        'Copies in this vault are on hold, immutable, or in use by a virtual machine.',
        { details: { held } },
      );
    }
  }
  const open = await VaultSync.query(tx).where('vault_id', id).whereNull('finished_at').first();
  if (open !== undefined) await endInFlight(ctx, open, hub);
  if (!keepSnapshots) {
    const now = clock.date();
    await copies().patch({ removedAt: now, removedBecause: 'vault_deleted' });
    if (count > 0) {
      await BackupRepository.query(tx)
        .findById(vault.repositoryId)
        .whereNull('prune_due_since')
        .patch({ pruneDueSince: now });
    }
  }
  await BackupVault.query(tx).deleteById(id);
  return { success: true as const, keptSnapshots: keepSnapshots ? count : 0, vault };
}

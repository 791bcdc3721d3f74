import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { commandTargets } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { assertCanWork } from './device-requests.ts';
import type { ServerEngine } from './repository-access.ts';
import { mapEngineErrors } from './repository-readers.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { addSync } from './vault-sync.ts';
import { BackupVault, VaultSync } from './vault.model.ts';
import type { DeleteVaultQuery, NewSync } from './vault.schema.ts';
import { findVault, toSyncResponse } from './vault.service.ts';

export interface SyncParts {
  hub: DeviceHub;
  work: WorkEngine;
  backupEngine: ServerEngine;
}

/** The server needs restic itself to make the repository of a vault in its store. */
export async function prepareSync(
  ctx: DetachedContext,
  id: string,
  { backupEngine }: SyncParts,
): Promise<void> {
  const needsEngine = await ctx.withTenant(async (tenant) => {
    const { provider } = await findVault(tenant, id);
    return provider === 'server';
  });
  if (needsEngine) await mapEngineErrors(() => backupEngine.open());
}

/** Begins at once, or when the device returns. */
export async function startSync(ctx: Context, id: string, { snapshotId }: NewSync, { hub, work }: SyncParts) {
  const vault = await findVault(ctx, id);
  await assertManageable(ctx, vault.orgId);
  if (!vault.isActive) throw new AppError('conflict', 'The vault is not active.');
  const [device] = await commandTargets(ctx, [vault.deviceId]);
  if (device === undefined) throw notFound('Device');
  assertCanWork(hub, device, { type: 'backup.vault-sync', what: 'sync vaults' });
  await assertToCopy(ctx, vault.sourceRepositoryId, snapshotId);
  const given = { reason: 'manual', snapshotId, createdBy: ctx.caller.userId } as const;
  const added = await addSync(ctx.tx, work, vault, given);
  if (added === undefined) throw await inFlight(ctx, id);
  return toSyncResponse(await VaultSync.query(ctx.tx).findById(added).throwIfNotFound(), hub);
}

async function assertToCopy(
  { tx }: Context,
  repositoryId: string,
  snapshotId: string | undefined,
): Promise<void> {
  const snapshots = BackupSnapshot.query(tx).where('repository_id', repositoryId).whereNull('removed_at');
  if (snapshotId !== undefined) {
    if ((await snapshots.findById(snapshotId)) !== undefined) return;
    throw invalid('body.snapshotId', 'must be a snapshot of the repository that the vault copies');
  }
  if ((await snapshots.first()) === undefined) {
    const source = await BackupRepository.query(tx).findById(repositoryId);
    throw new AppError(
      'conflict',
      source?.initializedAt == null
        ? 'The device has not been backed up yet.'
        : 'There is no snapshot to copy.',
    );
  }
}

async function inFlight({ tx }: Context, vaultId: string): Promise<AppError> {
  const sync = await VaultSync.query(tx).where('vault_id', vaultId).whereNull('finished_at').first();
  return new AppError('conflict', 'A sync of this vault is in flight.', {
    details: { syncId: sync?.id ?? null },
  });
}

/** Cancels the sync in flight. One that has not begun ends at once; a device that has begun stops. */
export async function cancelSync(
  ctx: Context,
  vaultId: string,
  { hub, work }: Pick<SyncParts, 'hub' | 'work'>,
) {
  const vault = await findVault(ctx, vaultId);
  await assertManageable(ctx, vault.orgId);
  const sync = await VaultSync.query(ctx.tx).where('vault_id', vaultId).whereNull('finished_at').first();
  if (sync === undefined) throw new AppError('conflict', 'No sync of this vault is in flight.');
  const { status, cancelRequestedAt } = sync;
  await work.cancel(ctx, sync.id);
  const cancelled = await VaultSync.query(ctx.tx).findById(sync.id).throwIfNotFound();
  ctx.recordChange(
    { status, cancelRequestedAt },
    { status: cancelled.status, cancelRequestedAt: cancelled.cancelRequestedAt },
  );
  return toSyncResponse(cancelled, hub);
}

/**
 * Ends a vault. The copies go the way of snapshots that retention does not keep: in the backup store a prune moves their
 * data to the trash. Copies that are on hold keep the vault from being deleted.
 */
export async function deleteVault(
  ctx: Context,
  id: string,
  { keepSnapshots = false }: DeleteVaultQuery,
  work: WorkEngine,
) {
  const { tx } = ctx;
  const vault = await findVault(ctx, id);
  await assertManageable(ctx, vault.orgId);
  const cancelOpen = async () => {
    const open = await VaultSync.query(tx).where('vault_id', id).whereNull('finished_at').first();
    if (open !== undefined) await work.cancel(ctx, open.id);
  };
  // A sync is locked before its vault, as when it ends: otherwise both could wait for each other.
  await cancelOpen();
  await BackupVault.query(tx).findById(id).forUpdate();
  // One that was added meanwhile. From now on there are no new ones.
  await cancelOpen();
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

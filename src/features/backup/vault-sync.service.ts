import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { cancelServerCommand } from '../../commands/index.ts';
import { commandTargets } from '../../devices/index.ts';
import { assertManageable } from '../../organizations/index.ts';
import { assertCanWork } from '../access/device-engine.ts';
import type { ServerEngine } from '../access/server-engine.ts';
import { answeringFailures } from '../reading/engine-failures.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { addSync } from './add-syncs.ts';
import { cancelSyncNow } from './sync-end.ts';
import { shownSync } from '../vaults/vault-answer.ts';
import { HAND_OVER } from './vault-jobs.ts';
import { VaultSync } from '../vaults/vault.model.ts';
import type { NewSync } from '../vaults/vault.schema.ts';
import { findVault } from '../vaults/vault.service.ts';

export interface SyncParts {
  hub: DeviceHub;
  jobs: Jobs;
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
  if (needsEngine) await answeringFailures(() => backupEngine.open());
}

/** Begins at once, or when the device returns. */
export async function startSync(ctx: Context, id: string, { snapshotId }: NewSync, { hub, jobs }: SyncParts) {
  const vault = await findVault(ctx, id);
  await assertManageable(ctx, vault.orgId);
  if (!vault.isActive) throw new AppError('conflict', 'The vault is not active.');
  const [device] = await commandTargets(ctx, [vault.deviceId]);
  if (device === undefined) throw notFound('Device');
  assertCanWork(hub, device, { type: 'backup.vault-sync', what: 'sync vaults' });
  await assertToCopy(ctx, vault.sourceRepositoryId, snapshotId);
  const added = await addSync(ctx.tx, vault, {
    snapshotId: snapshotId ?? null,
    createdBy: ctx.caller.userId,
  });
  if (added === undefined) throw await inFlight(ctx, id);
  await jobs.enqueue(ctx.tx, HAND_OVER, {});
  return shownSync(await VaultSync.query(ctx.tx).findById(added).throwIfNotFound(), hub);
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
export async function cancelSync(ctx: Context, vaultId: string, hub: DeviceHub) {
  const vault = await findVault(ctx, vaultId);
  await assertManageable(ctx, vault.orgId);
  const sync = await VaultSync.query(ctx.tx).where('vault_id', vaultId).whereNull('finished_at').first();
  if (sync === undefined) throw new AppError('conflict', 'No sync of this vault is in flight.');
  const { status, cancelRequestedAt } = sync;
  await endInFlight(ctx, sync, hub);
  const cancelled = await VaultSync.query(ctx.tx).findById(sync.id).throwIfNotFound();
  ctx.recordChange(
    { status, cancelRequestedAt },
    { status: cancelled.status, cancelRequestedAt: cancelled.cancelRequestedAt },
  );
  return shownSync(cancelled, hub);
}

/** The command is changed before the sync, as when its device reports: otherwise both could wait for each other. */
export async function endInFlight(
  { tx, afterCommit }: Pick<Context, 'tx' | 'afterCommit'>,
  { id, commandId }: Pick<VaultSync, 'id' | 'commandId'>,
  hub: DeviceHub,
): Promise<void> {
  const request =
    commandId === null
      ? { hasEnded: true, announce: () => {} }
      : await cancelServerCommand(tx, commandId, hub);
  const sync = await VaultSync.query(tx).findById(id).forUpdate().throwIfNotFound();
  if (sync.commandId !== commandId) {
    throw new AppError('conflict', 'The sync is just being given to its device. Try again.');
  }
  if (request.hasEnded && sync.finishedAt === null) await cancelSyncNow(tx, sync);
  else await sync.$query(tx).patch({ cancelRequestedAt: sync.cancelRequestedAt ?? clock.date() });
  afterCommit(request.announce);
}

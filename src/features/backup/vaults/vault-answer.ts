import { raw } from 'objection';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { isInBucket } from '../configs/details.schema.ts';
import { CAPABILITIES } from '../configs/provider.ts';
import { BackupVault, type VaultSync } from './vault.model.ts';

/** Vaults and their syncs as answers show them. */

/** Selected where a vault is read to be shown. */
interface Shown {
  configId: string | null;
  encryptionKeyId: string | null;
  storedBytes: string;
  newest: { status: VaultSync['status']; code: string | null; message: string | null } | null;
  lastSyncAt: Date | null;
  lastSyncSnapshotId: string | null;
}
export type ShownVault = BackupVault & Shown;

export const visibleVaults = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  BackupVault.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_vaults.org_id'))
    .select(
      'backup_vaults.*',
      raw(`(select r.config_id from backup_repositories r
        where r.id = backup_vaults.source_repository_id) as config_id`),
      raw(`(select r.encryption_key_id from backup_repositories r
        where r.id = backup_vaults.repository_id) as encryption_key_id`),
      raw(`(select r.stored_bytes from backup_repositories r
        where r.id = backup_vaults.repository_id) as stored_bytes`),
      raw(`(select jsonb_build_object('status', y.status, 'code', y.error_code, 'message', y.error_message)
        from backup_vault_syncs y where y.vault_id = backup_vaults.id
        order by y.created_at desc, y.id desc limit 1) as newest`),
      raw(`(select max(y.finished_at) from backup_vault_syncs y
        where y.vault_id = backup_vaults.id and y.status = 'completed') as last_sync_at`),
      raw(`(select c.copy_of from backup_snapshots c join backup_snapshots o on o.id = c.copy_of
        where c.repository_id = backup_vaults.repository_id and c.removed_at is null
        order by o.received_at desc, o.id desc limit 1) as last_sync_snapshot_id`),
    );

/** Without its secret. */
export function shownVault({ details, newest, storedBytes, ...vault }: ShownVault) {
  return {
    ...vault,
    details: isInBucket(details) ? { ...details, secretKey: { hasSecret: true as const } } : details,
    providerCapabilities: CAPABILITIES[vault.provider],
    lastSyncStatus: newest?.status ?? null,
    lastSyncError:
      typeof newest?.code === 'string' ? { code: newest.code, message: newest.message ?? '' } : null,
    syncSizeBytes: vault.provider === 'server' ? storedBytes : null,
  };
}

export function shownSync(
  { errorCode, errorMessage, wanted: _wanted, ...sync }: VaultSync,
  hub: Pick<DeviceHub, 'live'>,
) {
  const isConnected = hub.live(sync.deviceId)?.isConnected === true;
  const waits = sync.status === 'pending';
  return {
    ...sync,
    waitingFor: waits ? (isConnected ? ('turn' as const) : ('device' as const)) : null,
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
  };
}

import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { cancelSync, deleteVault, prepareSync, startSync, type SyncParts } from './vault-sync.service.ts';
import {
  BackupVault,
  DeleteVaultQuery,
  NewSync,
  NewVault,
  VaultDeleted,
  VaultPatch,
  VaultQuery,
  VaultStatus,
  VaultSync,
} from './vault.schema.ts';
import { createVault, listVaults, readVault, readVaultStatus, updateVault } from './vault.service.ts';

const aboutSync = ({ id, orgId, deviceId, vaultId, snapshotId }: Awaited<ReturnType<typeof startSync>>) => ({
  orgId,
  resourceId: id,
  details: { deviceId, vaultId, snapshotId },
});

export const vaultRoutes = (parts: SyncParts & { secrets: Encryptor }): RouteGroup => ({
  name: 'Backup vaults',
  description: 'Copies of the backups of a device at a second place, which the device makes.',
  routes: [
    route({
      method: 'get',
      path: '/backup/vault',
      summary: 'List vaults by name',
      access: everyScope('backup:read'),
      query: VaultQuery,
      response: pageOf(BackupVault),
      handler: ({ ctx, query }) => listVaults(ctx, query),
    }),
    route({
      method: 'post',
      path: '/backup/vault',
      summary: 'Create a vault',
      description:
        'The newest snapshots of the device are copied to the place that `details` names, as the device reaches it. Restores, holds and browsing work with the copies as with other snapshots.',
      access: everyScope('backup:write'),
      body: NewVault,
      response: BackupVault,
      status: 201,
      errors: ['limit_reached', 'not_found'],
      handler: ({ ctx, body }) => createVault(ctx, body, parts.secrets),
      audit: {
        action: 'backup.vault.create',
        resource: 'backup_vault',
        note: (vault) => ({
          ...auditSubject(vault),
          details: { deviceId: vault.deviceId, provider: vault.provider },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/backup/vault/:id',
      summary: 'Read a vault',
      access: everyScope('backup:read'),
      params: IdParams,
      response: BackupVault,
      handler: ({ ctx, params }) => readVault(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/backup/vault/:id',
      summary: 'Change a vault',
      description:
        'Each field replaces the stored one as a whole. The secret key of a bucket stays where `details` leaves it out. Device, provider and encryption key cannot be changed.',
      access: everyScope('backup:write'),
      params: IdParams,
      body: VaultPatch,
      response: BackupVault,
      handler: ({ ctx, params, body }) => updateVault(ctx, params.id, body, parts.secrets),
      audit: {
        action: 'backup.vault.update',
        resource: 'backup_vault',
        note: (vault) => ({ ...auditSubject(vault), details: { changedFields: vault.changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/backup/vault/:id',
      summary: 'Delete a vault',
      description: 'Refused while copies are on hold or immutable, unless `keepSnapshots` is true.',
      access: { ...peopleOfEveryScope('backup:delete'), mfa: true },
      params: IdParams,
      query: DeleteVaultQuery,
      response: VaultDeleted,
      errors: ['conflict'],
      handler: ({ ctx, params, query }) => deleteVault(ctx, params.id, query, parts.work),
      audit: {
        action: 'backup.vault.delete',
        resource: 'backup_vault',
        note: ({ vault, keptSnapshots }) => ({ ...auditSubject(vault), details: { keptSnapshots } }),
      },
    }),
    route({
      method: 'get',
      path: '/backup/vault/:id/status',
      summary: 'Read how far a vault is behind',
      access: everyScope('backup:read'),
      params: IdParams,
      response: VaultStatus,
      handler: ({ ctx, params }) => readVaultStatus(ctx, params.id, parts.hub),
    }),
    route({
      method: 'post',
      path: '/backup/vault/:id/sync',
      summary: 'Sync a vault now',
      description:
        'A device that is offline begins when it returns, until `expiresAt`. A vault has at most one sync in flight. What is in the vault already is not copied again.',
      access: everyScope('backup:execute'),
      params: IdParams,
      body: NewSync,
      response: VaultSync,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing', 'server_engine_missing'],
      // Looks for restic on the server, so before the transaction.
      prepare: ({ ctx, params }) => prepareSync(ctx, params.id, parts),
      handler: ({ ctx, params, body }) => startSync(ctx, params.id, body, parts),
      audit: { action: 'backup.vault.sync', resource: 'backup_vault_sync', note: aboutSync },
    }),
    route({
      method: 'post',
      path: '/backup/vault/:id/cancel',
      summary: 'Cancel the sync of a vault',
      description: 'Snapshots that were copied by then stay.',
      access: everyScope('backup:execute'),
      params: IdParams,
      response: VaultSync,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelSync(ctx, params.id, parts),
      audit: { action: 'backup.vault.sync-cancel', resource: 'backup_vault_sync', note: aboutSync },
    }),
  ],
});

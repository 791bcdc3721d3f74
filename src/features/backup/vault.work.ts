import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  ENGINE_MISSING_CAPABILITY,
  SECRETS_CAPABILITY,
} from '../../../protocol/index.ts';
import { type AddedCommand, addServerCommand } from '../../commands/index.ts';
import { isManageableSql } from '../../organizations/index.ts';
import { accessOfDevice, type DeviceAccess, type PlaceElsewhere } from '../access/device-access.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { secretOf } from '../configs/provider.ts';
import { EncryptionKey } from '../keys/key.model.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { endCredential } from '../store/records/credentials.ts';
import { WANTED } from '../vaults/lag.ts';
import { failSync } from './sync-end.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';
import { secretContext } from '../vaults/vault.service.ts';

/** Gives a sync to its device, as a command of the ledger. */

/** How long the command waits to be sent. A sync whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** Of the credentials. They have some time more than the device, for the result, which ends them. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

const ROUND_MAX = 100;

export interface DueSync {
  id: string;
  canSync: boolean;
  lacksEngine: boolean;
  isInitialized: boolean;
}

/** The syncs that can begin now, those of people first. */
export async function dueSyncs(tx: Tx): Promise<DueSync[]> {
  const { rows } = await tx.raw<{ rows: DueSync[] }>(
    `select y.id, d.capabilities @> :capabilities::text[] as "canSync",
      :engineMissing::text = any(d.capabilities) as "lacksEngine", r.initialized_at is not null as "isInitialized"
    from backup_vault_syncs y join backup_vaults v on v.id = y.vault_id
    join backup_repositories r on r.id = v.repository_id
    join backup_repositories s on s.id = v.source_repository_id and s.initialized_at is not null
    join devices d on d.id = y.device_id and d.condition not in ('pending', 'decommissioned')
    join device_presence p on p.device_id = d.id and p.state = 'connected'
    join organizations o on o.id = y.org_id and ${isManageableSql('o')}
    where y.finished_at is null and y.command_id is null
      and coalesce(r.pruning_until <= now(), true) and coalesce(s.pruning_until <= now(), true)
    order by y.reason = 'manual' desc, y.created_at, y.id limit ${ROUND_MAX}`,
    {
      capabilities: ['backup.vault-sync', SECRETS_CAPABILITY],
      engineMissing: ENGINE_MISSING_CAPABILITY,
    },
  );
  return rows;
}

/** What became of a sync that was due: given to the device, ended, or left for the next time. */
export type HandedOver = { command: AddedCommand } | 'ended' | 'waits';

export async function handOverSync(tx: Tx, syncId: string, secrets: Sealer): Promise<HandedOver> {
  const sync = await VaultSync.query(tx)
    .findById(syncId)
    .whereNull('command_id')
    .whereNull('finished_at')
    .forUpdate()
    .skipLocked();
  if (sync === undefined) return 'waits';
  const vault = await BackupVault.query(tx).findById(sync.vaultId).forShare().throwIfNotFound();
  const source = await BackupRepository.query(tx).findById(vault.sourceRepositoryId).throwIfNotFound();
  const target = await BackupRepository.query(tx).findById(vault.repositoryId).throwIfNotFound();
  const fault = await faultOf(tx, { sync, vault, source, target });
  if (fault !== undefined) {
    await failSync(tx, sync, fault);
    return 'ended';
  }
  const snapshots = await wantedBy(tx, sync, vault);
  if (snapshots.length === 0 && sync.snapshotId !== null) {
    const message = 'The snapshot that was to be copied was removed before the sync began.';
    await failSync(tx, sync, { code: 'SNAPSHOT_MISSING', message, copied: 0 });
    return 'ended';
  }
  if (snapshots.length === 0) {
    // Retention has removed them since.
    const at = clock.date();
    await sync.$query(tx).patch({ status: 'completed', copiedSnapshots: 0, finishedAt: at });
    return 'ended';
  }
  const access = await accessToBoth(tx, { sync, vault, source, target, secrets });
  if (access === undefined) return 'waits';
  const command = await addServerCommand(
    tx,
    { id: sync.deviceId, orgId: sync.orgId },
    {
      type: 'backup.vault-sync',
      payload: {
        syncId: sync.id,
        source: access.source.repository,
        vault: access.vault.repository,
        snapshotIds: snapshots,
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
      ttlSeconds: TTL_SECONDS,
      timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      secrets: { values: { ...access.source.values, ...access.vault.values }, sealer: secrets },
      createdBy: sync.createdBy,
    },
  );
  await sync.$query(tx).patch({
    commandId: command.id,
    sourceCredentialId: access.source.credentialId,
    vaultCredentialId: access.vault.credentialId,
    wanted: snapshots,
  });
  return { command };
}

interface Parts {
  sync: VaultSync;
  vault: BackupVault;
  source: BackupRepository;
  target: BackupRepository;
}

interface Fault {
  code: string;
  message: string;
}

/** A device that has moved takes its vaults along, but not the keys and buckets of the organization it has left. */
async function faultOf(tx: Tx, { vault, source, target }: Parts): Promise<Fault | undefined> {
  const keys = [source, target].flatMap(({ encryptionKeyId }) => encryptionKeyId ?? []);
  const foreign = await EncryptionKey.query(tx).whereIn('id', keys).whereNot('org_id', vault.orgId).first();
  if (foreign !== undefined) {
    const message =
      'An encryption key belongs to the organization that the device has left. Make a new vault.';
    return { code: 'KEY_MISSING', message };
  }
  if (source.provider === 'server' || (await configOf(tx, { vault, source })) !== undefined) return undefined;
  return { code: 'CONFIG_MISSING', message: 'The configuration of the backups was deleted.' };
}

const configOf = (tx: Tx, { vault, source }: Pick<Parts, 'vault' | 'source'>) =>
  BackupConfig.query(tx).findOne({ id: source.configId ?? vault.id, org_id: vault.orgId });

/** All that the vault has to have, also what it should have already: so that a vault that was lost is noticed. */
async function wantedBy(tx: Tx, { snapshotId }: VaultSync, { id }: BackupVault): Promise<string[]> {
  if (snapshotId !== null) {
    const only = await BackupSnapshot.query(tx).findById(snapshotId).whereNull('removed_at');
    return only === undefined ? [] : [only.engineId];
  }
  const { rows } = await tx.raw<{ rows: { engineId: string }[] }>(
    `select w.engine_id as "engineId" from backup_vaults v cross join lateral (${WANTED}) w where v.id = ?`,
    [id],
  );
  return rows.map(({ engineId }) => engineId);
}

async function accessToBoth(
  tx: Tx,
  { sync, vault, source, target, secrets }: Parts & { secrets: Sealer },
): Promise<{ source: DeviceAccess; vault: DeviceAccess } | undefined> {
  const common = { jobId: sync.id, expiresAt: new Date(clock.now() + LIFETIME_SECONDS * 1000) };
  const ofSource = await accessOfDevice(
    tx,
    {
      ...common,
      repository: source,
      role: 'reader',
      elsewhere: () => sourceElsewhere(tx, { vault, source }, secrets),
    },
    secrets,
  );
  if (ofSource === undefined) return undefined;
  const ofVault = await accessOfDevice(
    tx,
    { ...common, repository: target, role: 'vault', elsewhere: () => vaultElsewhere(tx, vault, secrets) },
    secrets,
  );
  if (ofVault !== undefined) return { source: ofSource, vault: ofVault };
  if (ofSource.credentialId !== null) await endCredential(tx, ofSource.credentialId);
  return undefined;
}

async function sourceElsewhere(
  tx: Tx,
  parts: Pick<Parts, 'vault' | 'source'>,
  secrets: Sealer,
): Promise<PlaceElsewhere> {
  const config = await configOf(tx, parts);
  if (config === undefined) throw new Error('the configuration of the repository is gone');
  return { details: config.details, secret: secretOf(secrets, config), isNew: false };
}

async function vaultElsewhere(tx: Tx, vault: BackupVault, secrets: Sealer): Promise<PlaceElsewhere> {
  const { id, details, sealedSecret, repositoryId } = vault;
  // Also of copies that are gone: what was once there is not made anew, because then a disk is not mounted.
  const copy = await BackupSnapshot.query(tx).findOne({ repository_id: repositoryId });
  return {
    details,
    secret: sealedSecret === null ? undefined : secrets.open(sealedSecret, secretContext(id)).text,
    isNew: copy === undefined,
  };
}

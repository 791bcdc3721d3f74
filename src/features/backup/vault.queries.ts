import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import {
  ENGINE_MISSING_CAPABILITY,
  SECRETS_CAPABILITY,
  type SnapshotDetails,
  VAULT_SYNC_SNAPSHOTS_MAX,
} from '../../protocol/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { BackupVault, type VaultSync } from './vault.model.ts';

/** The newest snapshots of the first repository. */
const NEWEST = `
  select s.received_at, s.backup_type, s.details from backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null
  order by s.received_at desc, s.id desc limit v.retention_count`;

/**
 * Since when the vault has to have every snapshot. A log or differential backup of a database is worth nothing without the
 * full backup before it, and without everything between the two.
 */
const WANTED_SINCE = `(
  select min(coalesce((
    select max(f.received_at) from backup_snapshots f
    where n.backup_type = 'database' and f.repository_id = v.source_repository_id and f.removed_at is null
      and f.backup_type = 'database' and f.received_at <= n.received_at and f.details ->> 'backupType' = 'full'
      and f.details ->> 'engine' = n.details ->> 'engine' and f.details ->> 'instance' = n.details ->> 'instance'
  ), n.received_at)) from (${NEWEST}) n)`;

export const HAS_COPY = `exists (select from backup_snapshots c
  where c.copy_of = s.id and c.repository_id = v.repository_id and c.removed_at is null)`;

export const ALL_WANTED = `backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null and s.received_at >= ${WANTED_SINCE}`;

/** Whether one of them has no copy. */
const IS_BEHIND = `exists (select from ${ALL_WANTED} and not ${HAS_COPY})`;

/** A vault of which a sync is wanted. */
export type VaultToSync = Pick<BackupVault, 'id' | 'orgId' | 'deviceId'>;

async function vaultsToSync(tx: Tx, conditions: string, values: unknown[]): Promise<VaultToSync[]> {
  const { rows } = await tx.raw<{ rows: VaultToSync[] }>(
    `select v.id, v.org_id as "orgId", v.device_id as "deviceId" from backup_vaults v where ${conditions}`,
    values as never,
  );
  return rows;
}

/** Those that are synced after each backup, and are behind this repository. */
export const vaultsAfterBackup = (tx: Tx, repositoryId: string): Promise<VaultToSync[]> =>
  vaultsToSync(tx, `v.source_repository_id = ? and v.is_active and v.sync_after_backup and ${IS_BEHIND}`, [
    repositoryId,
  ]);

/**
 * The vault of a sync that has ended, if another one has to follow: for what was backed up while the sync was in flight,
 * and for what was more than one sync takes.
 */
export const vaultsToFollow = (
  tx: Tx,
  { vaultId, wanted }: Pick<VaultSync, 'vaultId' | 'wanted'>,
): Promise<VaultToSync[]> =>
  vaultsToSync(tx, `v.id = ? and v.is_active and (v.sync_after_backup or ?) and ${IS_BEHIND}`, [
    vaultId,
    wanted.length >= VAULT_SYNC_SNAPSHOTS_MAX,
  ]);

/** A copy, with what is known of the snapshot that it is a copy of. */
interface HeldCopy {
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
        from backup_vault_syncs y where y.vault_id = backup_vaults.id order by y.id desc limit 1) as newest`),
      raw(`(select y.finished_at from backup_vault_syncs y
        where y.vault_id = backup_vaults.id and y.status = 'completed' order by y.id desc limit 1) as last_sync_at`),
      raw(`(select c.copy_of from backup_snapshots c join backup_snapshots o on o.id = c.copy_of
        where c.repository_id = backup_vaults.repository_id and c.removed_at is null
        order by o.received_at desc, o.id desc limit 1) as last_sync_snapshot_id`),
    );

interface Lag {
  /** How many snapshots the vault lacks. */
  lag: number;
  hours: number | null;
  isTooLong: boolean;
  /** How many copies it has. */
  snapshots: number;
}

/** How far a vault is behind. */
export async function readLag(tx: Tx, vaultId: string): Promise<Lag | undefined> {
  const { rows } = await tx.raw<{ rows: Lag[] }>(
    `select lag.snapshots as lag, extract(epoch from now() - lag.since)::float / 3600 as hours,
      coalesce(${LAGS_TOO_LONG}, false) as "isTooLong",
      (select count(*)::integer from backup_snapshots c
        where c.repository_id = v.repository_id and c.removed_at is null) as snapshots
    from backup_vaults v cross join ${LAG} where v.id = ?`,
    [vaultId],
  );
  return rows[0];
}

/** Keeps limits: those who create vaults of one device wait for each other. */
export async function lockDevice(tx: Tx, deviceId: string): Promise<void> {
  await tx.raw('select from devices where id = ? for no key update', [deviceId]);
}

export interface SyncReadiness {
  isConnected: boolean;
  /** Otherwise the device, its organization, or one of the two repositories has to change before. */
  mayBegin: boolean;
  canSync: boolean;
  lacksEngine: boolean;
  /** Whether the vault has its repository. */
  isInitialized: boolean;
}

/** Whether a sync can begin at this moment. `undefined`: its vault was deleted. */
export async function readSyncReadiness(tx: Tx, syncId: string): Promise<SyncReadiness | undefined> {
  const { rows } = await tx.raw<{ rows: SyncReadiness[] }>(
    `select coalesce(p.state = 'connected', false) as "isConnected",
      d.condition not in ('pending', 'decommissioned') and ${isManageableSql('o')}
        and s.initialized_at is not null
        and coalesce(r.pruning_until <= now(), true) and coalesce(s.pruning_until <= now(), true) as "mayBegin",
      d.capabilities @> :capabilities::text[] as "canSync",
      :engineMissing::text = any(d.capabilities) as "lacksEngine", r.initialized_at is not null as "isInitialized"
    from backup_vault_syncs y join backup_vaults v on v.id = y.vault_id
    join backup_repositories r on r.id = v.repository_id
    join backup_repositories s on s.id = v.source_repository_id
    join devices d on d.id = y.device_id
    left join device_presence p on p.device_id = d.id
    join organizations o on o.id = y.org_id
    where y.id = :syncId`,
    {
      syncId,
      capabilities: ['backup.vault-sync', SECRETS_CAPABILITY],
      engineMissing: ENGINE_MISSING_CAPABILITY,
    },
  );
  return rows[0];
}

// How far vaults (`v`, of backup_vaults) are behind the repositories that they copy.

/** When the newest snapshot of which a vault has a copy was received by the first repository. */
const NEWEST_COPIED = `(select max(o.received_at) from backup_snapshots c join backup_snapshots o on o.id = c.copy_of
  where c.repository_id = v.repository_id and c.removed_at is null)`;

/** A row with `snapshots`, those that are newer than the newest copy, and `since`, when the oldest of them came. */
export const LAG = `lateral (
  select count(*)::integer as snapshots, min(s.received_at) as since from backup_snapshots s
  where s.repository_id = v.source_repository_id and s.removed_at is null
    and s.received_at > coalesce(${NEWEST_COPIED}, '-infinity')) lag`;

/** Whether an alert is due. */
export const LAGS_TOO_LONG = `(v.is_active and lag.snapshots > 0
  and lag.since < now() - make_interval(hours => v.max_lag_hours))`;

/**
 * The snapshots of the first repository that a vault has to have, as many as one sync takes. Those without a copy come
 * first: of databases the oldest, which the others need, and otherwise the newest.
 */
export const WANTED = `
  select s.engine_id from ${ALL_WANTED}
  order by ${HAS_COPY}, case when s.backup_type = 'database' then s.received_at end, s.received_at desc, s.id desc
  limit ${VAULT_SYNC_SNAPSHOTS_MAX}`;

/** The ids in the engine of the snapshots that a vault has to have. */
export async function wantedSnapshots(tx: Tx, vaultId: string): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { engineId: string }[] }>(
    `select w.engine_id as "engineId" from backup_vaults v cross join lateral (${WANTED}) w where v.id = ?`,
    [vaultId],
  );
  return rows.map(({ engineId }) => engineId);
}

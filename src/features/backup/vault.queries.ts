import { raw } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
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

/** How long a sync waits for its device. */
const EXPIRY = `now() + interval '7 days'`;

const ONCE = 'on conflict (vault_id) where finished_at is null do nothing';

/** A sync that a person wants. `undefined` if one of the vault is in flight. */
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

/** Adds the syncs of vaults that are due. */
export async function addDueSyncs(tx: Tx, vaultIds: readonly string[]): Promise<void> {
  await tx.raw(`${ADD('schedule')} where v.id = any(?::uuid[]) and v.is_active ${ONCE}`, [[...vaultIds]]);
}

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
        from backup_vault_syncs y where y.vault_id = backup_vaults.id
        order by y.created_at desc, y.id desc limit 1) as newest`),
      raw(`(select max(y.finished_at) from backup_vault_syncs y
        where y.vault_id = backup_vaults.id and y.status = 'completed') as last_sync_at`),
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

const EXPIRED = 'The device was not connected, or has not been backed up, before the sync expired.';

export const expireSyncs = async (tx: Tx): Promise<void> => {
  await tx.raw(
    `update backup_vault_syncs set status = 'failed', finished_at = now(), updated_at = now(),
      error_code = 'EXPIRED', error_message = ?
    where finished_at is null and command_id is null and expires_at <= now()`,
    [EXPIRED],
  );
};

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

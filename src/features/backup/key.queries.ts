import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { EncryptionKey } from './key.model.ts';
import type { RecoveryKit, RecoveryKitQuery } from './key.schema.ts';

const IS_BEHIND = `r.provider = 'server' and r.initialized_at is not null
  and (r.key_version < k.version or r.has_old_keys)`;

/** The next repository, in the order of ids, that does not open with the newest version of its key only. */
export async function nextBehind(tx: Tx, after: string): Promise<string | undefined> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select r.id from backup_repositories r join backup_encryption_keys k on k.id = r.encryption_key_id
    where r.id > ? and k.version > 1 and ${IS_BEHIND} order by r.id limit 1`,
    [after],
  );
  return rows[0]?.id;
}

/** A key is `active` again when every repository that the server reaches has its newest version only. */
export async function endRotations(tx: Tx): Promise<void> {
  await tx.raw(
    `update backup_encryption_keys k set status = 'active', updated_at = now() where k.status = 'rotating'
      and not exists (select from backup_repositories r where r.encryption_key_id = k.id and ${IS_BEHIND})`,
  );
}

export interface Repositories {
  total: number;
  onNewestVersion: number;
  outOfReach: number;
}

/** How many repositories each key opens, and how many of them have its newest version. */
export async function repositoriesOf(
  tx: Tx,
  keys: readonly EncryptionKey[],
): Promise<ReadonlyMap<string, Repositories>> {
  const { rows } = await tx.raw<{ rows: (Repositories & { id: string })[] }>(
    `select k.id, count(*)::int as total,
      count(*) filter (where r.key_version = k.version and not r.has_old_keys)::int as "onNewestVersion",
      count(*) filter (where r.provider <> 'server')::int as "outOfReach"
    from backup_encryption_keys k join backup_repositories r on r.encryption_key_id = k.id
    where k.id = any(?::uuid[]) and r.initialized_at is not null group by k.id`,
    [keys.map(({ id }) => id)],
  );
  return new Map(rows.map(({ id, ...counts }) => [id, counts]));
}

export type KitRepository = RecoveryKit['repositories'][number];

export interface RepositoryRow {
  id: string;
  deviceId: string;
  deviceName: string;
  configId: string | null;
  provider: KitRepository['provider'];
  keyVersion: number | null;
  snapshots: { id: string; receivedAt: string }[];
  total: number;
}

export async function readRepositories(
  { tx }: Context,
  keyId: string,
  { page, limit, deviceId }: RecoveryKitQuery,
): Promise<RepositoryRow[]> {
  const { rows } = await tx.raw<{ rows: RepositoryRow[] }>(
    `select r.id, r.device_id as "deviceId", coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      r.config_id as "configId", r.provider, r.key_version as "keyVersion", (count(*) over ())::integer as total,
      coalesce((select jsonb_agg(jsonb_build_object('id', s.engine_id,
          'receivedAt', to_char(s.received_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
          order by s.received_at desc)
        from (select * from backup_snapshots s where s.repository_id = r.id and s.removed_at is null
          order by s.received_at desc limit 10) s), '[]') as snapshots
    from backup_repositories r join devices d on d.id = r.device_id
    where r.encryption_key_id = :keyId and r.initialized_at is not null
      and (cast(:deviceId as uuid) is null or r.device_id = cast(:deviceId as uuid))
    order by "deviceName", r.id limit :limit offset :offset`,
    { keyId, deviceId: deviceId ?? null, limit, offset: (page - 1) * limit },
  );
  return rows;
}

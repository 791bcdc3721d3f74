import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { notFound } from '../../../platform/errors.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { isInBucket } from '../configs/details.schema.ts';
import { BackupVault } from '../vaults/vault.model.ts';
import { passwordOf } from '../keys/key-material.ts';
import { EncryptionKey, EncryptionKeyVersion } from '../keys/key.model.ts';
import type { RecoveryKit, RecoveryKitQuery } from './recovery-kit.schema.ts';

type KitRepository = RecoveryKit['repositories'][number];

/** What names the place of a repository: its configuration, or its vault. */
type Placed = Pick<BackupConfig | BackupVault, 'details'>;

interface RepositoryRow {
  id: string;
  deviceId: string;
  deviceName: string;
  configId: string | null;
  provider: KitRepository['provider'];
  keyVersion: number | null;
  snapshots: { id: string; receivedAt: string }[];
  total: number;
}

/**
 * What stock restic needs to restore without Muster: the passwords, where the repositories are, and the commands word
 * for word. The secret of a bucket is not part of it; anyone who restores has one of their own.
 */
export async function readRecoveryKit(
  ctx: Context,
  id: string,
  query: RecoveryKitQuery,
  sealer: Sealer,
): Promise<RecoveryKit> {
  const key = await EncryptionKey.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_encryption_keys.org_id'))
    .findById(id);
  if (key === undefined) throw notFound('Encryption key');
  const versions = await EncryptionKeyVersion.query(ctx.tx).where('key_id', id).orderBy('version', 'desc');
  const rows = await readRepositories(ctx, id, query);
  const configs = await BackupConfig.query(ctx.tx).whereIn(
    'id',
    rows.flatMap(({ configId }) => configId ?? []),
  );
  const vaults = await BackupVault.query(ctx.tx).whereIn(
    'repository_id',
    rows.map((row) => row.id),
  );
  return {
    keyId: id,
    orgId: key.orgId,
    name: key.name,
    createdAt: clock.date().toISOString(),
    passwords: versions.map((version) => ({
      version: version.version,
      password: passwordOf(sealer, version),
      createdAt: version.createdAt.toISOString(),
    })),
    repositories: rows.map((row) => {
      const config = configs.find(({ id: configId }) => configId === row.configId);
      const vault = vaults.find(({ repositoryId }) => repositoryId === row.id);
      const { configId: _id, total: _total, ...shown } = row;
      return {
        ...shown,
        configName: config?.name ?? null,
        vaultName: vault?.name ?? null,
        ...howToOpen(row, config ?? vault),
      };
    }),
    pagination: { page: query.page, limit: query.limit, total: rows[0]?.total ?? 0 },
  };
}

async function readRepositories(
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

function howToOpen(
  { id, provider, keyVersion }: RepositoryRow,
  config: Placed | undefined,
): Pick<KitRepository, 'location' | 'notes' | 'commands'> {
  const { location, notes } = placeOf(id, provider, config);
  const restic = `restic -r '${location}' --password-file PASSWORD_FILE`;
  return {
    location,
    notes: [
      `PASSWORD_FILE is a file that holds the password of version ${keyVersion ?? 'N'} in one line.`,
      ...notes,
    ],
    commands: [
      `${restic} snapshots`,
      `${restic} check`,
      `${restic} restore SNAPSHOT_ID --target TARGET_FOLDER`,
    ],
  };
}

function placeOf(
  id: string,
  provider: RepositoryRow['provider'],
  config: Placed | undefined,
): { location: string; notes: string[] } {
  const details = config?.details ?? {};
  if (provider === 'server') {
    return {
      location: `DATA_FOLDER/backups/${id}`,
      notes: [
        'DATA_FOLDER is the data folder of the Muster server (DATA_DIR). The folder is a repository as restic makes it; work on a copy. Where the server keeps backups in a bucket, copy the objects below the same name from there first.',
      ],
    };
  }
  if (isInBucket(details)) {
    const { endpoint, region, bucket, prefix } = details;
    const host = endpoint ?? `https://s3.${region ?? 'us-east-1'}.amazonaws.com`;
    return {
      location: `s3:${host}/${bucket}/${prefix === undefined ? '' : `${prefix}/`}${id}`,
      notes: [
        'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set for restic, with the right to list and read the bucket.',
      ],
    };
  }
  if ('path' in details) {
    const separator = details.path.startsWith('/') ? '/' : '\\';
    return {
      location: `${details.path.replace(/[\\/]$/, '')}${separator}${id}`,
      notes: ['The path is that of the device. The disk or share can have another path on another machine.'],
    };
  }
  return { location: id, notes: ['The configuration is gone, and with it the place of this repository.'] };
}

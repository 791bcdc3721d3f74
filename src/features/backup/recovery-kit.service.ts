import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { notFound } from '../../platform/errors.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BackupConfig } from './config.model.ts';
import { isInBucket } from './config.schema.ts';
import { EncryptionKey, EncryptionKeyVersion, passwordOf } from './key.model.ts';
import { type KitRepository, readRepositories, type RepositoryRow } from './key.queries.ts';
import type { RecoveryKit, RecoveryKitQuery } from './key.schema.ts';
import { BackupVault } from './vault.model.ts';

/** The configuration or the vault that a repository belongs to. */
type Placed = Pick<BackupConfig | BackupVault, 'details'>;

/**
 * The recovery kit: all that stock restic needs to restore without Muster: the passwords, the places of the
 * repositories, and the commands word for word. The secret of a bucket is not part of it; anyone who restores has one
 * of their own.
 */
export async function readRecoveryKit(
  ctx: Context,
  id: string,
  query: RecoveryKitQuery,
  encryptor: Encryptor,
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
      password: passwordOf(encryptor, version),
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
        'DATA_FOLDER is the data folder of the Muster server (DATA_DIR). The folder is a repository as restic makes it; work on a copy. If the server keeps backups in a bucket, copy the objects below the same name from there first.',
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

import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { sealContext, type Encryptor } from '../../platform/secrets/sealed.ts';
import { BackupRepository, createRepository } from '../backup-store/index.ts';
import { findDevice } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { timeZoneOf } from './snapshot.queries.ts';
import { BackupConfig } from './config.model.ts';
import { isInBucket, type StoredDetails } from './config.schema.ts';
import { assertOfProvider, CAPABILITIES, detailsToStore } from './config.service.ts';
import { EncryptionKey } from './key.model.ts';
import { type BackupSchedule, nextSlot } from './schedule.ts';
import { BackupVault, SEALED_VAULT_SECRET, VaultSync } from './vault.model.ts';
import { lockDevice, readLag, visibleVaults } from './vault.queries.ts';
import type { NewVault, VaultPatch, VaultQuery } from './vault.schema.ts';

// Vaults and their syncs as responses.

/** Selected when a vault is read to be shown. */
interface Shown {
  configId: string | null;
  encryptionKeyId: string | null;
  storedBytes: string;
  newest: { status: VaultSync['status']; code: string | null; message: string | null } | null;
  lastSyncAt: Date | null;
  lastSyncSnapshotId: string | null;
}
type ShownVault = BackupVault & Shown;

/** Without its secret. */
function toVaultResponse({ details, newest, storedBytes, ...vault }: ShownVault) {
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

export function toSyncResponse(
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

const MAX_OF_REPOSITORY = 5;
const DEFAULT_RETENTION = 3;
const DEFAULT_LAG_HOURS = 48;

export const secretContext = (id: string) =>
  sealContext(SEALED_VAULT_SECRET.table, SEALED_VAULT_SECRET.column, id);

export async function listVaults(ctx: Context, query: VaultQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  if (query.deviceId !== undefined) await findDevice(ctx, query.deviceId);
  const vaults = visibleVaults(ctx)
    .where(omitUndefined({ org_id: query.orgId, device_id: query.deviceId, is_active: query.isActive }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  const { results, total } = await vaults.castTo<{ results: ShownVault[]; total: number }>();
  return toPage(query, { results: results.map(toVaultResponse), total });
}

export async function findVault(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<ShownVault> {
  const vault = await visibleVaults(ctx).findById(id).castTo<ShownVault | undefined>();
  if (vault === undefined) throw notFound('Vault');
  return vault;
}

export const readVault = async (ctx: Context, id: string) => toVaultResponse(await findVault(ctx, id));

export async function createVault(ctx: Context, input: NewVault, encryptor: Encryptor) {
  const { deviceId, configId, encryptionKeyId, details = {}, provider, ...rest } = input;
  const { id: device, orgId } = await findDevice(ctx, deviceId);
  await assertManageable(ctx, orgId);
  const config = await configOf(ctx, { orgId, device, configId });
  const key = await EncryptionKey.query(ctx.tx)
    .where('org_id', orgId)
    .findById(encryptionKeyId ?? config.encryptionKeyId);
  if (key === undefined) {
    throw invalid('body.encryptionKeyId', 'must be an encryption key of the organization of the device');
  }
  const id = newId();
  const stored = detailsToStore(id, details, encryptor, secretContext);
  assertSecondPlace(config, { provider, details: stored.details });
  // Serialized by a lock on the device, so that the limit holds and a repository is made once.
  await lockDevice(ctx.tx, device);
  const source = await sourceOf(ctx, { orgId, device, config });
  if (
    (await BackupVault.query(ctx.tx).where('source_repository_id', source.id).resultSize()) >=
    MAX_OF_REPOSITORY
  ) {
    throw new AppError('limit_reached', `Vault limit reached (${MAX_OF_REPOSITORY} for each configuration).`);
  }
  const repository = await createRepository(ctx.tx, {
    orgId,
    deviceId: device,
    configId: null,
    provider,
    encryptionKeyId: key.id,
    keyVersion: key.version,
    isVault: true,
    // The server makes those of its own store before their first sync; elsewhere the device does.
    initializedAt: provider === 'server' ? null : clock.date(),
  });
  const { schedule = null, syncAfterBackup = schedule === null } = rest;
  await BackupVault.query(ctx.tx).insert({
    id,
    orgId,
    deviceId: device,
    sourceRepositoryId: source.id,
    repositoryId: repository.id,
    provider,
    ...stored,
    name: rest.name ?? 'Vault',
    isActive: rest.isActive ?? true,
    syncAfterBackup,
    schedule,
    retentionCount: rest.retentionCount ?? DEFAULT_RETENTION,
    maxLagHours: rest.maxLagHours ?? DEFAULT_LAG_HOURS,
    nextSyncAt: await nextSyncOf(ctx, { deviceId: device, schedule }),
    createdBy: ctx.caller.userId,
  });
  return readVault(ctx, id);
}

export async function updateVault(
  ctx: Context,
  id: string,
  { details, ...patch }: VaultPatch,
  encryptor: Encryptor,
) {
  const { orgId } = await findVault(ctx, id);
  await assertManageable(ctx, orgId);
  const vault = await BackupVault.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  const changedFields = Object.keys(omitUndefined({ ...patch, details }));
  if (changedFields.length === 0) throw noFields();
  if (details !== undefined) {
    assertOfProvider(vault.provider, details);
    const source = await BackupRepository.query(ctx.tx).findById(vault.sourceRepositoryId);
    const config = await BackupConfig.query(ctx.tx).findById(source?.configId ?? id);
    const { provider } = vault;
    const stored = detailsToStore(id, details, encryptor, secretContext);
    if (config !== undefined) assertSecondPlace(config, { provider, details: stored.details });
    Object.assign(patch, stored);
  }
  const { schedule } = patch;
  await patchRecorded(ctx, vault, {
    ...omitUndefined(patch),
    // A form sends a schedule that it does not change as well. A sync that has failed is tried again when it was to be.
    ...(schedule === undefined || isDeepStrictEqual(schedule, vault.schedule)
      ? {}
      : { nextSyncAt: await nextSyncOf(ctx, { deviceId: vault.deviceId, schedule }) }),
  });
  return { ...(await readVault(ctx, id)), changedFields };
}

const STATUS_SYNCS = 10;

export async function readVaultStatus(ctx: Context, id: string, hub: DeviceHub) {
  await findVault(ctx, id);
  // Before the rest: with the end of a sync its copies are recorded.
  const syncs = await VaultSync.query(ctx.tx)
    .where('vault_id', id)
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(STATUS_SYNCS);
  const shown = syncs.map((sync) => toSyncResponse(sync, hub));
  const vault = await findVault(ctx, id);
  const row = await readLag(ctx.tx, id);
  if (row === undefined) throw notFound('Vault');
  return {
    data: {
      vaultId: id,
      state: stateOf(vault, row),
      snapshots: row.snapshots,
      lag: {
        snapshots: row.lag,
        hours: Math.round((row.hours ?? 0) * 100) / 100,
        isTooLong: row.isTooLong,
      },
      lastSyncAt: vault.lastSyncAt,
      lastError: shown[0]?.error ?? null,
      nextSyncAt: vault.nextSyncAt,
      syncs: shown,
    },
  };
}

function stateOf(
  { isActive }: Pick<BackupVault, 'isActive'>,
  { lag, snapshots }: { lag: number; snapshots: number },
): 'inactive' | 'empty' | 'current' | 'behind' {
  if (!isActive) return 'inactive';
  if (snapshots === 0) return 'empty';
  return lag === 0 ? 'current' : 'behind';
}

async function configOf(
  { tx }: Context,
  { orgId, device, configId }: { orgId: string; device: string; configId: string | undefined },
): Promise<BackupConfig> {
  const configs = BackupConfig.query(tx).where('org_id', orgId).forShare();
  if (configId !== undefined) {
    const config = await configs.findById(configId);
    if (config !== undefined) return config;
    throw invalid('body.configId', 'must be a backup configuration of the organization of the device');
  }
  const [only, another] = await configs
    .whereIn(
      'id',
      BackupRepository.query(tx).where({ device_id: device, is_vault: false }).select('config_id'),
    )
    .limit(2);
  if (only === undefined) {
    throw invalid('body.configId', 'is required: the device has no backups yet');
  }
  if (another !== undefined) {
    throw invalid('body.configId', 'is required: the device has backups of several configurations');
  }
  return only;
}

/** The repository of the device, which its first backup fills if that has not been made yet. */
async function sourceOf(
  { tx }: Context,
  { orgId, device, config }: { orgId: string; device: string; config: BackupConfig },
): Promise<BackupRepository> {
  const known = await BackupRepository.query(tx).findOne({ device_id: device, config_id: config.id });
  if (known !== undefined) return known;
  const key = await EncryptionKey.query(tx).findById(config.encryptionKeyId).throwIfNotFound();
  return createRepository(tx, {
    orgId,
    deviceId: device,
    configId: config.id,
    provider: config.provider,
    encryptionKeyId: key.id,
    keyVersion: key.version,
  });
}

/** A copy in the same bucket or folder is lost with it. In the backup store, a vault is a repository of its own. */
function assertSecondPlace(
  config: Pick<BackupConfig, 'provider' | 'details'>,
  vault: { provider: BackupVault['provider']; details: StoredDetails },
): void {
  const [here, there] = [config.details, vault.details];
  if ('path' in here && 'path' in there && closed(here.path) === closed(there.path)) {
    throw invalid('body.details.path', 'must be another folder than that of the backups');
  }
  if (!isInBucket(here) || !isInBucket(there)) return;
  if (here.bucket === there.bucket && here.endpoint === there.endpoint) {
    throw invalid('body.details.bucket', 'must be another bucket than that of the backups');
  }
  // restic takes one pair of keys for both of its repositories.
  if (here.accessKey !== there.accessKey) {
    throw invalid(
      'body.details.accessKey',
      'must be that of the configuration, whose bucket is copied with it',
    );
  }
}

const closed = (path: string) => path.replace(/[\\/]+$/, '');

/** In the time zone of the device's site, unless the schedule names one. */
export async function nextSyncOf(
  { tx }: Pick<Context, 'tx'>,
  { deviceId, schedule }: { deviceId: string; schedule: BackupSchedule | null },
  after = clock.date(),
): Promise<Date | null> {
  if (schedule === null) return null;
  return nextSlot(schedule, schedule.timezone ?? (await timeZoneOf(tx, deviceId)), after);
}

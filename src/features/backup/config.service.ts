import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { type Encryptor, sealContext } from '../../platform/secrets/sealed.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { positionsOutsideOrganization } from '../devices/index.ts';
import { conditionsForGroup, type FilterReferrer } from '../filters/index.ts';
import { groupsOutsideOrganization } from '../groups/index.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { BackupConfig, SEALED_CONFIG_SECRET } from './config.model.ts';
import {
  type BackupTargets,
  type ConfigPatch,
  type ConfigQuery,
  type DeleteConfigQuery,
  type NewConfig,
  type Provider,
  isInBucket,
  LocalDetails,
  S3DetailsPatch,
  ServerDetails,
  type StoredDetails,
} from './config.schema.ts';
import { cancelUnbegun } from '../work/index.ts';
import { openJobsOf } from './job.queries.ts';
import { readKey } from './key.service.ts';
import { BackupSnapshot } from './snapshot.model.ts';

/** Refuses the deletion of a filter that decides what is backed up. */
export const backupConfigsUseFilters: FilterReferrer = {
  kind: 'backup configuration',
  sql: `select id, name, org_id from backup_configs where targets ->> 'filterId' = ?::text`,
};

/** Throws `validation_failed` if the targets name something outside of the organization. */
async function assertTargets(
  ctx: Context,
  orgId: string,
  { deviceIds = [], groupIds = [], filterId }: BackupTargets = {},
): Promise<void> {
  const [device] = await positionsOutsideOrganization(ctx, orgId, deviceIds);
  if (device !== undefined) {
    throw invalid(`body.targets.deviceIds.${device}`, 'must be a device of the organization');
  }
  const [group] = await groupsOutsideOrganization(ctx.tx, orgId, groupIds);
  if (group !== undefined) {
    throw invalid(`body.targets.groupIds.${group}`, 'must be a group of the organization');
  }
  if (filterId === undefined) return;
  const conditions = await conditionsForGroup(ctx, { orgId, filterId });
  if (conditions === undefined) {
    throw invalid('body.targets.filterId', 'must be a filter of the organization');
  }
}

const MAX_CONFIGS = 100;
const NAME_TAKEN = 'Another backup configuration of this organization has this name.';

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  BackupConfig.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'backup_configs.org_id'));

export async function listConfigs(ctx: Context, query: ConfigQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const configs = accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId, provider: query.provider }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, await configs);
}

export async function readConfig(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<BackupConfig> {
  const config = await accessible(ctx).findById(id);
  if (config === undefined) throw notFound('Backup configuration');
  return config;
}

export async function createConfig(
  ctx: Context,
  { details = {}, ...input }: NewConfig,
  encryptor: Encryptor,
): Promise<BackupConfig> {
  const { orgId } = input;
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds and one configuration is the default.
  await lockOrganization(ctx.tx, orgId);
  const present = await BackupConfig.query(ctx.tx).where('org_id', orgId).resultSize();
  if (present >= MAX_CONFIGS) {
    throw new AppError('limit_reached', `Backup configuration limit reached (${MAX_CONFIGS}).`);
  }
  await assertKey(ctx, orgId, input.encryptionKeyId);
  await assertTargets(ctx, orgId, input.targets);
  if (input.isDefault === true) await endDefault(ctx, orgId);
  const id = newId();
  const { targets = {}, retention = {}, limits = {}, schedule = null, ...rest } = input;
  return namingConflict(
    BackupConfig.query(ctx.tx).insertAndFetch({
      id,
      ...omitUndefined(rest),
      ...detailsToStore(id, details, encryptor),
      targets,
      retention,
      limits,
      schedule,
      createdBy: ctx.caller.userId,
    }),
    'backup_configs_name',
    'body.name',
    NAME_TAKEN,
  );
}

export async function updateConfig(
  ctx: Context,
  id: string,
  { details, ...patch }: ConfigPatch,
  encryptor: Encryptor,
): Promise<BackupConfig & { changedFields: string[] }> {
  const config = await readConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  if (details !== undefined) assertOfProvider(config.provider, details);
  await assertTargets(ctx, config.orgId, patch.targets);
  const changedFields = Object.keys(omitUndefined({ ...patch, details }));
  if (changedFields.length === 0) throw noFields();
  if (patch.isDefault === true) {
    await lockOrganization(ctx.tx, config.orgId);
    await endDefault(ctx, config.orgId);
  }
  // A form sends a schedule that it does not change as well.
  const hasNewSchedule = patch.schedule !== undefined && !isDeepStrictEqual(patch.schedule, config.schedule);
  const isScheduledAnew = hasNewSchedule || (patch.enabled === true && !config.enabled);
  const changes = {
    ...omitUndefined(patch),
    ...(details === undefined ? {} : detailsToStore(id, details, encryptor)),
    // Slots that were not due under the earlier schedule, or while it was off, are not made up for.
    ...(isScheduledAnew ? { scheduledSince: clock.date() } : {}),
  };
  const updated = await namingConflict(
    patchRecorded(ctx, config, changes),
    'backup_configs_name',
    'body.name',
    NAME_TAKEN,
  );
  return Object.assign(updated, { changedFields });
}

async function assertKey(ctx: Context, orgId: string, keyId: string): Promise<void> {
  const key = await readKey(ctx, keyId).catch((error: unknown) => {
    if (error instanceof AppError && error.code === 'not_found') return undefined;
    throw error;
  });
  if (key?.orgId !== orgId) {
    throw invalid('body.encryptionKeyId', 'must be an encryption key of the organization');
  }
}

const endDefault = ({ tx }: Context, orgId: string) =>
  BackupConfig.query(tx).where({ org_id: orgId, is_default: true }).patch({ isDefault: false });

/** Repositories and their snapshots stay, without a configuration. */
export async function deleteConfig(ctx: Context, id: string, { keepSnapshots = false }: DeleteConfigQuery) {
  const config = await readConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  // Work is locked before its configuration, as when it begins: otherwise both could wait for each other.
  await cancelUnbegun(ctx.tx, (await openJobsOf(ctx.tx, id)).unbegun);
  // No job is added or begun meanwhile.
  await BackupConfig.query(ctx.tx).findById(id).forUpdate();
  const snapshots = await BackupSnapshot.query(ctx.tx)
    .where('config_id', id)
    .whereNull('removed_at')
    .resultSize();
  if (snapshots > 0 && !keepSnapshots) {
    throw new AppError('conflict', 'Snapshots of this backup configuration are held.', {
      details: { snapshots },
    });
  }
  const { unbegun, hasBegun } = await openJobsOf(ctx.tx, id);
  const cancelled = await cancelUnbegun(ctx.tx, unbegun);
  if (hasBegun || cancelled < unbegun.length) {
    throw new AppError('conflict', 'Backups with this configuration are running.');
  }
  await BackupRepository.query(ctx.tx).where('config_id', id).patch({ configId: null });
  await BackupConfig.query(ctx.tx).deleteById(id);
  return { success: true as const, keptSnapshots: snapshots, config };
}

/** The differences between the providers: their details, their secret, and their guarantees. */

const PATCHES = { server: ServerDetails, s3: S3DetailsPatch, local: LocalDetails } as const;

const contextOf = (id: string) => sealContext(SEALED_CONFIG_SECRET.table, SEALED_CONFIG_SECRET.column, id);

/**
 * Splits the details of a configuration, or of a vault, into what is stored in clear and what is sealed.
 * @param context  what the sealed value is bound to
 */
export function detailsToStore(
  id: string,
  details: NonNullable<NewConfig['details'] | ConfigPatch['details']>,
  encryptor: Encryptor,
  context = contextOf,
): { details: StoredDetails; sealedSecret?: string } {
  if (!('accessKey' in details)) return { details };
  const { secretKey, ...place } = details;
  return {
    details: omitUndefined(place),
    ...(secretKey === undefined ? {} : { sealedSecret: encryptor.seal(secretKey, context(id)) }),
  };
}

/** Throws `validation_failed` if the details are those of another provider. */
export function assertOfProvider(provider: Provider, details: NonNullable<ConfigPatch['details']>): void {
  const parsed = PATCHES[provider].safeParse(details);
  if (parsed.success) return;
  throw invalid('body.details', `must be the details of the provider ${provider}, which cannot be changed`);
}

/** The secret key of an S3 configuration. It goes to the engine and nowhere else. */
export function secretOf(encryptor: Encryptor, { id, sealedSecret }: BackupConfig): string | undefined {
  return sealedSecret === null ? undefined : encryptor.open(sealedSecret, contextOf(id)).text;
}

/** The guarantees of each provider about the stored data. */
export const CAPABILITIES = {
  server: { isAppendOnly: true, servesEarlierStates: true, prunedBy: 'server' },
  // A device has the rights of the bucket's key; only a policy of the bucket can limit them. The server does not open
  // addresses that a tenant names with the engine, which is not guarded.
  s3: { isAppendOnly: false, servesEarlierStates: false, prunedBy: 'nobody' },
  // The server does not reach a path of the device, and a device never prunes.
  local: { isAppendOnly: false, servesEarlierStates: false, prunedBy: 'nobody' },
} as const satisfies Record<Provider, object>;

/** As answers show a configuration: without its secret. */
export const toConfigResponse = ({ details, ...config }: BackupConfig) => ({
  ...config,
  details: isInBucket(details) ? { ...details, secretKey: { hasSecret: true as const } } : details,
  providerCapabilities: CAPABILITIES[config.provider],
});

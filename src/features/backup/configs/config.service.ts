import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { readKey } from '../keys/key.service.ts';
import { BackupConfig } from './config.model.ts';
import type { ConfigPatch, ConfigQuery, NewConfig } from './config.schema.ts';
import { assertOfProvider, detailsToStore } from './provider.ts';
import { assertTargets } from './targets.ts';

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
  sealer: Sealer,
): Promise<BackupConfig> {
  const { orgId } = input;
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  // Serialized by a lock on the organization, so that the limit holds and one configuration is the default.
  await ctx.tx.raw('select from organizations where id = ? for no key update', [orgId]);
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
      ...detailsToStore(id, details, sealer),
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
  sealer: Sealer,
): Promise<BackupConfig & { changedFields: string[] }> {
  const config = await readConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  if (details !== undefined) assertOfProvider(config.provider, details);
  await assertTargets(ctx, config.orgId, patch.targets);
  const changedFields = Object.keys(omitUndefined({ ...patch, details }));
  if (changedFields.length === 0) throw noFields();
  if (patch.isDefault === true) {
    await ctx.tx.raw('select from organizations where id = ? for no key update', [config.orgId]);
    await endDefault(ctx, config.orgId);
  }
  const isScheduledAnew = patch.schedule !== undefined || (patch.enabled === true && !config.enabled);
  const changes = {
    ...omitUndefined(patch),
    ...(details === undefined ? {} : detailsToStore(id, details, sealer)),
    // What was not due under the schedule before, or while it was off, is not made up for.
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

import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { namingConflict } from '../../../platform/db/database-errors.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import { nameOrder } from '../../../platform/db/name-order.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, noFields, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { type BackupSchedule, nextSlot, readKey } from '../../backup/index.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { followRuns } from '../care/follow-runs.ts';
import { findConnection } from '../connections/connection.service.ts';
import { followFailedRuns } from '../failed-runs.ts';
import { CloudConfig } from './config.model.ts';
import type { CloudJobStatus } from '../job-status.ts';
import type {
  CloudConfigPatch,
  CloudConfigQuery,
  CloudConfigUserQuery,
  NewCloudConfig,
} from './config.schema.ts';

const CONFIGS_MAX = 100;
const NAME_TAKEN = 'Another cloud backup configuration of this organization has this name.';

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CloudConfig.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_configs.org_id')).whereNull('removing_since');

export async function listCloudConfigs(ctx: Context, query: CloudConfigQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessible(ctx)
    .where(omitUndefined({ org_id: query.orgId, connection_id: query.connectionId }))
    .orderByRaw(`${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  return toPage(query, { results: await withLastRuns(ctx, results), total });
}

interface LastRun {
  config_id: string;
  job_id: string;
  status: CloudJobStatus;
  created_at: Date;
  finished_at: Date | null;
}

async function withLastRuns<C extends CloudConfig>(ctx: Pick<Context, 'tx'>, configs: readonly C[]) {
  const { rows } = await ctx.tx.raw<{ rows: LastRun[] }>(
    `select c.id as config_id, j.id as job_id, j.status, j.created_at, j.finished_at
    from c2c_configs c cross join lateral (
      select * from c2c_jobs where org_id = c.org_id and config_id = c.id and type = 'backup'
      order by created_at desc, id desc limit 1) j
    where c.id = any(?)`,
    [configs.map(({ id }) => id)],
  );
  const runs = new Map(rows.map((row) => [row.config_id, row]));
  return configs.map((config) => {
    const run = runs.get(config.id);
    const lastRun =
      run === undefined
        ? null
        : { jobId: run.job_id, status: run.status, createdAt: run.created_at, completedAt: run.finished_at };
    return Object.assign(config, { lastRun });
  });
}

export async function withLastRun<C extends CloudConfig>(ctx: Pick<Context, 'tx'>, config: C) {
  const [shown] = await withLastRuns(ctx, [config]);
  return shown ?? Object.assign(config, { lastRun: null });
}

const USERS_SHOWN = 200;

/** Jumps in the index from one user to the next, because a user may have a million items. */
export async function listConfigUsers(ctx: Context, id: string, { search }: CloudConfigUserQuery) {
  const config = await findCloudConfig(ctx, id);
  const { rows } = await ctx.tx.raw<{ rows: { userEmail: string }[] }>(
    `with recursive found as (
      (select user_id, user_email from c2c_items where config_id = :id order by user_id limit 1)
      union all
      select next.user_id, next.user_email from found cross join lateral (
        select user_id, user_email from c2c_items
        where config_id = :id and user_id > found.user_id order by user_id limit 1) next)
    select distinct user_email as "userEmail" from found
    where user_email ilike :pattern order by user_email limit ${USERS_SHOWN}`,
    { id: config.id, pattern: containing(search ?? '') },
  );
  return { data: rows };
}

export async function findCloudConfig(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudConfig> {
  const config = await accessible(ctx).findById(id);
  if (config === undefined) throw notFound('Cloud backup configuration');
  return config;
}

export async function createCloudConfig(ctx: Context, input: NewCloudConfig): Promise<CloudConfig> {
  const { orgId } = await findConnection(ctx, input.connectionId);
  await assertManageable(ctx, orgId);
  const key = await absentAsInvalid('body.encryptionKeyId', readKey(ctx, input.encryptionKeyId));
  if (key.orgId !== orgId) {
    throw invalid('body.encryptionKeyId', 'must be a key of the organization of the connection');
  }
  await ctx.tx.raw('select from organizations where id = ? for no key update', [orgId]);
  const present = await CloudConfig.query(ctx.tx).where('org_id', orgId).resultSize();
  if (present >= CONFIGS_MAX) {
    throw new AppError('limit_reached', `Cloud backup configuration limit reached (${CONFIGS_MAX}).`);
  }
  const {
    allUsers = false,
    targetUsers = [],
    schedule = null,
    retention = {},
    enabled = true,
    ...rest
  } = input;
  const config = await namingConflict(
    CloudConfig.query(ctx.tx).insertAndFetch({
      ...rest,
      orgId,
      allUsers,
      targetUsers,
      schedule,
      retention,
      enabled,
      nextRunAt: nextRunOf({ schedule, enabled }),
      createdBy: ctx.caller.userId,
    }),
    'c2c_configs_name',
    'body.name',
    NAME_TAKEN,
  );
  await followRuns(ctx.tx, orgId);
  return config;
}

export async function updateCloudConfig(
  ctx: Context,
  id: string,
  patch: CloudConfigPatch,
): Promise<CloudConfig & { changedFields: string[] }> {
  const config = await findCloudConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  const changedFields = Object.keys(omitUndefined(patch));
  if (changedFields.length === 0) throw noFields();
  const { allUsers = config.allUsers, targetUsers = config.targetUsers } = patch;
  const { schedule = config.schedule, enabled = config.enabled } = patch;
  if (allUsers === targetUsers.length > 0) {
    throw invalid('body.targetUsers', 'must name users, unless allUsers is true');
  }
  const isScheduledAnew = patch.schedule !== undefined || patch.enabled !== undefined;
  const changes = {
    ...omitUndefined(patch),
    // What was not due before is not made up for.
    ...(isScheduledAnew ? { nextRunAt: nextRunOf({ schedule, enabled }), scheduledSince: clock.date() } : {}),
  };
  const updated = await namingConflict(
    patchRecorded(ctx, config, changes),
    'c2c_configs_name',
    'body.name',
    NAME_TAKEN,
  );
  await followRuns(ctx.tx, config.orgId);
  return Object.assign(updated, { changedFields });
}

/** Hides it at once. A job removes its items, which may be many. */
export async function deleteCloudConfig(ctx: Context, id: string) {
  const config = await findCloudConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  await CloudConfig.query(ctx.tx).findById(id).patch({ removingSince: clock.date(), nextRunAt: null });
  await ctx.tx.raw(
    'update c2c_jobs set cancel_requested_at = now() where org_id = ? and config_id = ? and finished_at is null',
    [config.orgId, id],
  );
  await followFailedRuns(ctx.tx, config.orgId, { hasFailed: false });
  await followRuns(ctx.tx, config.orgId);
  return { success: true as const, config };
}

export const nextRunOf = (
  { schedule, enabled }: { schedule: BackupSchedule | null; enabled: boolean },
  after = clock.date(),
): Date | null =>
  schedule === null || !enabled ? null : nextSlot(schedule, schedule.timezone ?? 'UTC', after);

async function absentAsInvalid<T>(path: string, found: Promise<T>): Promise<T> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof AppError && error.code === 'not_found') throw invalid(path, 'must exist');
    throw error;
  }
}

import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { namingConflict } from '../../platform/db/database-errors.ts';
import { containing } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import { AppError, invalid, noFields, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { type BackupSchedule, scheduleTimes, encryptionKeys } from '../backup/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { assertManageable, assertOrganizationAccess, lockOrganization } from '../organizations/index.ts';
import { updateReadiness, updateFailedRunAlert } from './readiness.ts';
import { findConnection } from './connection.service.ts';
import {
  accessibleConfigs,
  accessibleConfigsByName,
  openJobsOf,
  lastRunsOf,
  usersWithItems,
} from './cloud-backup.queries.ts';
import { CloudConfig } from './cloud-backup.model.ts';
import type {
  CloudConfigPatch,
  CloudConfigQuery,
  CloudConfigUserQuery,
  NewCloudConfig,
} from './config.schema.ts';

const CONFIGS_MAX = 100;
const NAME_TAKEN = 'Another cloud backup configuration of this organization has this name.';

export async function listCloudConfigs(ctx: Context, query: CloudConfigQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleConfigsByName(ctx)
    .where(omitUndefined({ org_id: query.orgId, connection_id: query.connectionId }))
    .page(query.page - 1, query.limit);
  return toPage(query, { results: await withLastRuns(ctx, results), total });
}

async function withLastRuns<C extends CloudConfig>(ctx: Pick<Context, 'tx'>, configs: readonly C[]) {
  const rows = await lastRunsOf(
    ctx.tx,
    configs.map(({ id }) => id),
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

export async function listConfigUsers(ctx: Context, id: string, { search }: CloudConfigUserQuery) {
  const config = await findCloudConfig(ctx, id);
  return {
    data: await usersWithItems(ctx.tx, config.id, { pattern: containing(search ?? ''), limit: USERS_SHOWN }),
  };
}

export async function findCloudConfig(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudConfig> {
  const config = await accessibleConfigs(ctx).findById(id);
  if (config === undefined) throw notFound('Cloud backup configuration');
  return config;
}

export async function createCloudConfig(ctx: Context, input: NewCloudConfig): Promise<CloudConfig> {
  const { orgId } = await findConnection(ctx, input.connectionId);
  await assertManageable(ctx, orgId);
  const key = await absentAsInvalid(
    'body.encryptionKeyId',
    encryptionKeys.readKey(ctx, input.encryptionKeyId),
  );
  if (key.orgId !== orgId) {
    throw invalid('body.encryptionKeyId', 'must be a key of the organization of the connection');
  }
  await lockOrganization(ctx.tx, orgId);
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
  await updateReadiness(ctx.tx, orgId);
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
  // A form sends a schedule that it does not change as well.
  const isScheduledAnew = !isDeepStrictEqual(schedule, config.schedule) || enabled !== config.enabled;
  const changes = {
    ...omitUndefined(patch),
    // Missed runs are not repeated.
    ...(isScheduledAnew ? { nextRunAt: nextRunOf({ schedule, enabled }), scheduledSince: clock.date() } : {}),
  };
  const updated = await namingConflict(
    patchRecorded(ctx, config, changes),
    'c2c_configs_name',
    'body.name',
    NAME_TAKEN,
  );
  await updateReadiness(ctx.tx, config.orgId);
  return Object.assign(updated, { changedFields });
}

/** Hides it at once. A job removes its items, which may be many. */
export async function deleteCloudConfig(ctx: Context, id: string, work: WorkEngine) {
  const config = await findCloudConfig(ctx, id);
  await assertManageable(ctx, config.orgId);
  const cancelOpen = async () => {
    for (const job of await openJobsOf(ctx.tx, config)) await work.cancel(ctx, job.id);
  };
  // A job is locked before its configuration, as when it ends: otherwise both could wait for each other.
  await cancelOpen();
  await CloudConfig.query(ctx.tx).findById(id).patch({ removingSince: clock.date(), nextRunAt: null });
  // Those that were added meanwhile. From now on there are no new ones.
  await cancelOpen();
  await updateFailedRunAlert(ctx.tx, config.orgId, { hasFailed: false });
  await updateReadiness(ctx.tx, config.orgId);
  return { success: true as const, config };
}

export const nextRunOf = (
  { schedule, enabled }: { schedule: BackupSchedule | null; enabled: boolean },
  after = clock.date(),
): Date | null =>
  schedule === null || !enabled ? null : scheduleTimes.nextSlot(schedule, schedule.timezone ?? 'UTC', after);

async function absentAsInvalid<T>(path: string, found: Promise<T>): Promise<T> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof AppError && error.code === 'not_found') throw invalid(path, 'must exist');
    throw error;
  }
}

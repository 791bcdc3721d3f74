import { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound, invalid } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { defineWork, type WorkEngine } from '../work/index.ts';
import { findCloudConfig } from './config.service.ts';
import { accessibleJobs, type OutcomeRow, outcomesOf, restoredItemsOf } from './cloud-backup.queries.ts';
import { CloudJob, CloudJobFacts, CloudConfig, CloudConnection } from './cloud-backup.model.ts';
import type { CloudJobQuery, NewCloudRestore } from './job.schema.ts';
import { findStoredItems, withVersion } from './item.service.ts';

/** A run of a configuration, or a restore. How far it is stands in the tables, so that another server can go on. */
export const CLOUD_JOB = defineWork({
  kind: 'cloud_backup',
  input: z.object({}),
  steps: ['run'],
  // Each may be a server that was stopped in the middle of a run of days.
  attempts: 20,
  deadlineMs: 30 * DAY_MS,
  keptDays: 100,
});

export async function startRun(ctx: Context, configId: string, work: WorkEngine) {
  const config = await findCloudConfig(ctx, configId);
  await assertManageable(ctx, config.orgId);
  const id = await addRun(ctx.tx, work, config, { trigger: 'manual', createdBy: ctx.caller.userId });
  if (id === undefined) {
    const open = await CloudJob.query(ctx.tx).findOne({
      config_id: configId,
      type: 'backup',
      finished_at: null,
    });
    throw new AppError('conflict', 'A run of this configuration has not ended yet.', {
      details: { jobId: open?.id ?? null },
    });
  }
  return toJobResponse(await findJob(ctx, id));
}

type NewJob = Pick<CloudJobFacts, 'orgId' | 'configId' | 'type' | 'trigger'> &
  Partial<Pick<CloudJobFacts, 'target' | 'partsTotal'>> & { createdBy: string | null };

/** @returns the id of the job; `undefined` if a run of the configuration has not ended */
async function addJob(
  tx: Tx,
  work: WorkEngine,
  { createdBy, ...facts }: NewJob,
): Promise<string | undefined> {
  const { orgId, configId, type, trigger } = facts;
  const one = type === 'backup' ? { exclusiveKey: configId } : {};
  const options = { orgId, createdBy, isUrgent: trigger === 'manual', ...one };
  const id = await work.enqueue(tx, CLOUD_JOB, {}, options);
  if (id !== undefined) await CloudJobFacts.query(tx).insert({ id, ...facts });
  return id;
}

export const addRun = (
  tx: Tx,
  work: WorkEngine,
  { id: configId, orgId }: Pick<CloudConfig, 'id' | 'orgId'>,
  by: Pick<NewJob, 'trigger' | 'createdBy'>,
): Promise<string | undefined> => addJob(tx, work, { orgId, configId, type: 'backup', ...by });

export async function listJobs(ctx: Context, query: CloudJobQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const { results, total } = await accessibleJobs(ctx)
    .where(
      omitUndefined({
        org_id: query.orgId,
        config_id: query.configId,
        type: query.type,
        status: query.status,
      }),
    )
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  return toPage(query, { results: results.map(toJobResponse), total });
}

async function findJob(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudJob> {
  const job = await accessibleJobs(ctx).findById(id);
  if (job === undefined) throw notFound('Cloud backup job');
  return job;
}

const OUTCOMES_MAX = 4000;

export async function readJob(ctx: Context, id: string) {
  const job = await findJob(ctx, id);
  const { total, outcomes } = await outcomesOf(ctx.tx, job, OUTCOMES_MAX);
  const items = await restoredItemsOf(ctx.tx, job);
  return {
    ...toJobResponse(job),
    outcomesTotal: total,
    outcomes: outcomes.map((row) => ({
      userEmail: row.user_email,
      kind: row.kind,
      status: row.status,
      itemsNew: row.items_new,
      itemsUpdated: row.items_updated,
      itemsDeleted: row.items_deleted,
      itemsFailed: row.items_failed,
      bytesTransferred: row.bytes_transferred,
      error: errorOf(row),
    })),
    items: items.map((row) => ({
      itemId: row.item_id,
      itemType: row.kind,
      subjectOrName: row.name,
      userEmail: row.user_email,
      status: row.status,
      error: errorOf(row),
    })),
  };
}

const errorOf = ({
  error_code: code,
  error_message: message,
}: Pick<OutcomeRow, 'error_code' | 'error_message'>) =>
  code === null ? null : { code, message: message ?? '' };

/** A job that has not begun ends at once. A running one ends with its next step. */
export async function cancelJob(ctx: Context, id: string, work: WorkEngine) {
  const job = await findJob(ctx, id);
  await assertManageable(ctx, job.orgId);
  if (job.finishedAt !== null) throw new AppError('conflict', `The job has already ended: ${job.status}.`);
  await work.cancel(ctx, id);
  const cancelled = await findJob(ctx, id);
  const shown = ({ status, cancelRequestedAt }: CloudJob) => ({ status, cancelRequestedAt });
  ctx.recordChange(shown(job), shown(cancelled));
  return toJobResponse(cancelled);
}

export function toJobResponse({ errorCode, errorMessage, finishedAt, ...shown }: CloudJob) {
  return {
    ...shown,
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    completedAt: finishedAt,
  };
}

const OPEN_MAX = 20;
const FOLDER = 'Restored by Muster';

export async function createRestore(ctx: Context, input: NewCloudRestore, work: WorkEngine) {
  const { orgId, configId, items: newest } = await findStoredItems(ctx, input.itemIds);
  await assertManageable(ctx, orgId);
  const { versionId } = input;
  const items =
    versionId === undefined
      ? newest
      : await Promise.all(newest.map((item) => withVersion(ctx, item, versionId)));
  const config = await CloudConfig.query(ctx.tx).findById(configId).throwIfNotFound();
  const connectionId = input.targetConnectionId ?? config.connectionId;
  const connection = await CloudConnection.query(ctx.tx).findOne({ id: connectionId, org_id: orgId });
  if (connection === undefined) {
    throw invalid('body.targetConnectionId', 'must be a connection of the organization of the items');
  }
  const open = await CloudJob.query(ctx.tx)
    .where({ org_id: orgId, type: 'restore', finished_at: null })
    .resultSize();
  if (open >= OPEN_MAX) throw new AppError('conflict', `${OPEN_MAX} restores have not ended yet.`);
  const jobId = await addJob(ctx.tx, work, {
    orgId,
    configId,
    type: 'restore',
    trigger: 'manual',
    target: { connectionId, user: input.targetUser ?? null, folder: input.targetFolder ?? FOLDER },
    partsTotal: items.length,
    createdBy: ctx.caller.userId,
  });
  if (jobId === undefined) throw new Error('A restore excludes no other one.');
  await ctx
    .tx('c2c_restored_items')
    .insert(
      items.map((item) => ({ job_id: jobId, org_id: orgId, item_id: item.id, version_id: item.versionId })),
    );
  return toJobResponse(await findJob(ctx, jobId));
}

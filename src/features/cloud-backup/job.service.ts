import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound, invalid } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { findCloudConfig } from './config.service.ts';
import {
  accessibleJobs,
  insertRun,
  type OutcomeRow,
  outcomesOf,
  restoredItemsOf,
} from './cloud-backup.queries.ts';
import { CloudJob, CloudConfig, CloudConnection } from './cloud-backup.model.ts';
import type { CloudJobQuery, NewCloudRestore } from './job.schema.ts';
import { findStoredItems, withVersion } from './item.service.ts';

/** Executes a run or a restore. Its progress is in the tables, so another server can continue it. */
export const WORK = defineJob({
  name: 'c2c.work',
  input: z.object({ jobId: z.uuid() }),
  result: z.object({}),
  // The job queue has given up after several attempts: record that in the run.
  attempts: 1000,
  concurrency: 4,
  resumes: true,
});

export async function startRun(ctx: Context, configId: string, jobs: Jobs) {
  const config = await findCloudConfig(ctx, configId);
  await assertManageable(ctx, config.orgId);
  const id = await addRun(ctx.tx, config, jobs, { trigger: 'manual', createdBy: ctx.caller.userId });
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

/** Adds a run and returns its id; `undefined` if one of the configuration has not ended. */
export async function addRun(
  tx: Tx,
  { id: configId, orgId }: { id: string; orgId: string },
  jobs: Jobs,
  by: { trigger: 'manual' | 'schedule'; createdBy: string | null },
): Promise<string | undefined> {
  const id = newId();
  if (!(await insertRun(tx, { id, orgId, configId, ...by }))) return undefined;
  await enqueueWork(tx, jobs, { id, orgId });
  return id;
}

export async function enqueueWork(
  tx: Tx,
  jobs: Jobs,
  { id, orgId }: { id: string; orgId: string },
  delayMs = 0,
): Promise<void> {
  const owner = await tx('organizations')
    .where('id', orgId)
    .first<{ partner_id: string } | undefined>('partner_id');
  await jobs.enqueue(tx, WORK, { jobId: id }, { partnerId: owner?.partner_id ?? null, delayMs });
}

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
export async function cancelJob(ctx: Context, id: string) {
  await findJob(ctx, id);
  const job = await CloudJob.query(ctx.tx).findById(id).forNoKeyUpdate().throwIfNotFound();
  await assertManageable(ctx, job.orgId);
  if (job.finishedAt !== null) throw new AppError('conflict', `The job has already ended: ${job.status}.`);
  const at = clock.date();
  const cancelled = await patchRecorded(ctx, job, {
    cancelRequestedAt: at,
    ...(job.status === 'pending' ? { status: 'cancelled', finishedAt: at } : {}),
  });
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

export async function createRestore(ctx: Context, input: NewCloudRestore, jobs: Jobs) {
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
  const job = await CloudJob.query(ctx.tx).insertAndFetch({
    orgId,
    configId,
    type: 'restore',
    trigger: 'manual',
    target: { connectionId, user: input.targetUser ?? null, folder: input.targetFolder ?? FOLDER },
    partsTotal: items.length,
    createdBy: ctx.caller.userId,
  });
  await ctx.tx('c2c_restored_items').insert(
    items.map(({ id, versionId }) => ({
      job_id: job.id,
      org_id: orgId,
      item_id: id,
      version_id: versionId,
    })),
  );
  await enqueueWork(ctx.tx, jobs, job);
  return toJobResponse(job);
}

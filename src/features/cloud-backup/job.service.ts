import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { patchRecorded } from '../../../platform/db/patch-recorded.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { toPage } from '../../../platform/http/pagination.ts';
import { newId } from '../../../platform/ids.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { assertManageable, assertOrganizationAccess } from '../../organizations/index.ts';
import { findCloudConfig } from '../configs/config.service.ts';
import type { KindName } from '../kinds/kind.ts';
import { CloudJob } from './job.model.ts';
import type { CloudJobQuery } from './job.schema.ts';

/** Does a run or a restore. What it has done is in the tables, so another server goes on from there. */
export const WORK = defineJob({
  name: 'c2c.work',
  input: z.object({ jobId: z.uuid() }),
  result: z.object({}),
  // Ended by the handler, after some attempts: the run has to learn of it.
  attempts: 1000,
  concurrency: 4,
  resumes: true,
});

const accessible = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CloudJob.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_jobs.org_id'));

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
  return shownJob(await findJob(ctx, id));
}

/** Answers the id of the run. `undefined` where one has not ended. */
export async function addRun(
  tx: Tx,
  { id: configId, orgId }: { id: string; orgId: string },
  jobs: Jobs,
  by: { trigger: 'manual' | 'schedule'; createdBy: string | null },
): Promise<string | undefined> {
  const id = newId();
  const { rows } = await tx.raw<{ rows: object[] }>(
    `insert into c2c_jobs (id, org_id, config_id, type, trigger, created_by) values (?, ?, ?, 'backup', ?, ?)
    on conflict do nothing returning id`,
    [id, orgId, configId, by.trigger, by.createdBy] as string[],
  );
  if (rows.length === 0) return undefined;
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
  const { results, total } = await accessible(ctx)
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
  return toPage(query, { results: results.map(shownJob), total });
}

async function findJob(ctx: Pick<Context, 'tx' | 'caller'>, id: string): Promise<CloudJob> {
  const job = await accessible(ctx).findById(id);
  if (job === undefined) throw notFound('Cloud backup job');
  return job;
}

interface OutcomeRow {
  user_email: string;
  kind: KindName;
  status: 'pending' | 'running' | 'completed' | 'partial' | 'skipped' | 'failed';
  items_new: string;
  items_updated: string;
  items_deleted: string;
  items_failed: string;
  bytes_transferred: string;
  error_code: string | null;
  error_message: string | null;
}

type RestoredRow = Pick<OutcomeRow, 'user_email' | 'kind' | 'error_code' | 'error_message'> & {
  item_id: string;
  name: string;
  status: 'pending' | 'restored' | 'present' | 'failed';
};

const OUTCOMES_MAX = 4000;

export async function readJob(ctx: Context, id: string) {
  const job = await findJob(ctx, id);
  const all = () => ctx.tx('c2c_outcomes').where({ job_id: id, org_id: job.orgId });
  const [counted] = await all().count<[{ count: string }]>('*');
  const outcomes = await all()
    .orderByRaw(`status in ('failed', 'partial') desc, user_email, kind`)
    .limit(OUTCOMES_MAX)
    .select<OutcomeRow[]>('*');
  const { rows: items } = await ctx.tx.raw<{ rows: RestoredRow[] }>(
    `select r.item_id, r.status, r.error_code, r.error_message, i.kind, i.name, i.user_email
    from c2c_restored_items r join c2c_items i on i.org_id = r.org_id and i.id = r.item_id
    where r.org_id = ? and r.job_id = ? order by r.error_code is null, i.user_email, r.item_id`,
    [job.orgId, id],
  );
  return {
    ...shownJob(job),
    outcomesTotal: counted?.count ?? 0,
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

/** One that nobody has begun ends at once. A worker that has begun ends with its next step. */
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
  return shownJob(cancelled);
}

export function shownJob({ errorCode, errorMessage, finishedAt, ...shown }: CloudJob) {
  return {
    ...shown,
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    completedAt: finishedAt,
  };
}

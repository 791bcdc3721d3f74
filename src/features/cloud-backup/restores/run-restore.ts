import { AppError } from '../../../platform/errors.ts';
import type { CloudParts } from '../connections/open-graph.ts';
import { GraphError, isOfConnection } from '../graph/graph-error.ts';
import type { GraphUser, KindName } from '../kinds/kind.ts';
import type { CloudJob } from '../jobs/job.model.ts';
import { findUser } from '../runs/run-backup.ts';
import { holdJob, type Run, within } from '../runs/run.ts';
import { bringBack, type RestoredItem } from './bring-back.ts';

const AT_ONCE = 100;

/**
 * Restores one item after another. Before an item is made, its place is asked whether it is there already: that holds
 * after a crash, and when a restore is repeated.
 */
export async function runRestore(
  run: Run,
  _cloud: CloudParts,
  { target }: CloudJob,
): Promise<{ status: 'completed' | 'partial' | 'failed' }> {
  if (target === null) throw new Error('a restore has no target');
  const users = new Map<string, Promise<GraphUser>>();
  const userOf = (email: string) => {
    const known = users.get(email) ?? findUser(run.graph, email);
    users.set(email, known);
    return known;
  };
  for (;;) {
    const items = await pending(run);
    if (items.length === 0) return { status: await statusOf(run) };
    for (const item of items) {
      try {
        const user = await userOf(target.user ?? item.userEmail);
        const { externalId, wasThere } = await bringBack(run, { user, folder: target.folder }, item);
        await settle(run, item.id, {
          status: wasThere ? 'present' : 'restored',
          external_id: externalId.slice(0, 1000),
        });
      } catch (error) {
        run.graph.signal.throwIfAborted();
        const failure = error instanceof AppError ? new GraphError('CONTENT_DAMAGED', error.message) : error;
        if (!(failure instanceof GraphError) || isOfConnection(failure)) throw failure;
        await settle(run, item.id, {
          status: 'failed',
          error_code: failure.code.slice(0, 100),
          error_message: failure.message.slice(0, 1000),
        });
      }
    }
  }
}

const pending = (run: Run): Promise<RestoredItem[]> =>
  within(run, async (tx) => {
    await holdJob(tx, run);
    const { rows } = await tx.raw<{ rows: (Omit<RestoredItem, 'kind'> & { kind: KindName })[] }>(
      `select i.id, i.kind, i.name, i.parent_path as "parentPath", i.user_email as "userEmail", i.metadata,
        r.version_id as "versionId", v.bytes::float8 as bytes, v.sha256, v.org_id as "orgId"
      from c2c_restored_items r join c2c_items i on i.org_id = r.org_id and i.id = r.item_id
      join c2c_versions v on v.org_id = r.org_id and v.id = r.version_id
      where r.job_id = ? and r.status = 'pending' order by r.item_id limit ${AT_ONCE}`,
      [run.jobId],
    );
    return rows;
  });

const settle = (run: Run, itemId: string, outcome: Record<string, string>): Promise<void> =>
  within(run, async (tx) => {
    await holdJob(tx, run);
    await tx('c2c_restored_items').where({ job_id: run.jobId, item_id: itemId }).update(outcome);
    await tx('c2c_jobs')
      .where('id', run.jobId)
      .update({
        parts_done: tx.raw('parts_done + 1'),
        items_processed: tx.raw('items_processed + 1'),
        items_new: tx.raw('items_new + ?', [outcome['status'] === 'restored' ? 1 : 0]),
        items_failed: tx.raw('items_failed + ?', [outcome['status'] === 'failed' ? 1 : 0]),
        updated_at: tx.fn.now(),
      });
  });

/** Contents that retention has removed since the request are failures as well. */
const statusOf = (run: Run): Promise<'completed' | 'partial' | 'failed'> =>
  within(run, async (tx) => {
    await tx('c2c_restored_items').where({ job_id: run.jobId, status: 'pending' }).update({
      status: 'failed',
      error_code: 'CONTENT_GONE',
      error_message: 'The content was removed before it could be restored.',
    });
    const rows = await tx('c2c_restored_items')
      .where('job_id', run.jobId)
      .distinct<{ status: string }[]>('status');
    const hasFailed = rows.some(({ status }) => status === 'failed');
    if (!hasFailed) return 'completed';
    return rows.length === 1 ? 'failed' : 'partial';
  });

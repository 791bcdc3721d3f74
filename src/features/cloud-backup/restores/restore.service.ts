import type { Context } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { assertManageable } from '../../organizations/index.ts';
import { CloudConfig } from '../configs/config.model.ts';
import { CloudConnection } from '../connections/connection.model.ts';
import { findStoredItems, withVersion } from '../items/item.service.ts';
import { CloudJob } from '../jobs/job.model.ts';
import { enqueueWork, shownJob } from '../jobs/job.service.ts';
import type { NewCloudRestore } from './restore.schema.ts';

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
  return shownJob(job);
}

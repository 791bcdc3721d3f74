import type { Context } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import { positionsOutsideOrganization } from '../../devices/index.ts';
import { conditionsForGroup, type FilterReferrer } from '../../filters/index.ts';
import { groupsOutsideOrganization } from '../../groups/index.ts';
import type { BackupTargets } from './config.schema.ts';

/** Refuses the deletion of a filter that decides what is backed up. */
export const backupConfigsUseFilters: FilterReferrer = {
  kind: 'backup configuration',
  sql: `select id, name, org_id from backup_configs where targets ->> 'filterId' = ?::text`,
};

/** Throws `validation_failed` where the targets name something outside of the organization. */
export async function assertTargets(
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

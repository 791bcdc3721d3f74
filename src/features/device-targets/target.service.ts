import type { Context } from '../../platform/context.ts';
import { AppError, invalid } from '../../platform/errors.ts';
import { conditionsForGroup, organizationOfFilter } from '../filters/index.ts';
import { LISTS, positionsOutside } from './target.queries.ts';
import type { Owner } from '../owners/index.ts';
import type { DeviceTarget } from './target.schema.ts';

const NAMES = Object.keys(LISTS) as (keyof typeof LISTS)[];

/**
 * Throws `validation_failed` if a target names something that is not of its owner.
 * @param path  the field that has the target, such as `body.target`
 */
export async function assertTarget(
  ctx: Context,
  owner: Owner,
  target: DeviceTarget,
  path: string,
): Promise<void> {
  const what = owner.orgId === null ? 'of your organizations' : 'of the organization';
  for (const list of NAMES) {
    const ids = target[list];
    if (ids === undefined) continue;
    const outside = await positionsOutside(ctx.tx, owner, list, ids);
    if (outside.length === 0) continue;
    const message = `must be a ${LISTS[list].noun} ${what}`;
    throw new AppError('validation_failed', `${path}.${list}.${outside[0]}: ${message}`, {
      details: outside.map((position) => ({ path: `${path}.${list}.${position}`, message })),
    });
  }
  if (target.filterId !== undefined) await assertFilter(ctx, owner, target.filterId, `${path}.filterId`);
}

/** The filter is locked against deletion until the end of the transaction. */
async function assertFilter(
  ctx: Context,
  { orgId: ownerOrgId }: Owner,
  filterId: string,
  path: string,
): Promise<void> {
  // Row level security hides the filters of other partners.
  const orgId = ownerOrgId ?? (await organizationOfFilter(ctx.tx, filterId));
  const conditions = orgId === undefined ? undefined : await conditionsForGroup(ctx, { orgId, filterId });
  if (conditions !== undefined) return;
  throw invalid(
    path,
    `must be a filter of ${ownerOrgId === null ? 'one of your organizations' : 'the organization'}`,
  );
}

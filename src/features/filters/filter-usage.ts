import type { Context } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import { AppError } from '../../platform/errors.ts';
import type { Use } from './filter.schema.ts';

/** A place that names a filter: `sql` answers `id`, `name` and `org_id` of what does, by the one parameter. */
export interface PlaceOfUse {
  kind: string;
  sql: string;
}

/** Every place in the database that can name a filter. Where another is added, add its line. */
const PLACES: readonly PlaceOfUse[] = [
  { kind: 'group', sql: 'select id, name, org_id from device_groups where filter_id = ?' },
];

/** Where the filter is used, as far as the caller can see. */
export async function filterUsage(ctx: Context, filterId: string, places = PLACES): Promise<Use[]> {
  if (places.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: Use[] }>(
    `select kind, id, name from (${places
      .map(
        ({ kind, sql }) =>
          `select '${kind}' as kind, used.id, used.name from (${sql}) as used where ${inTenant(ctx.caller, 'used.org_id')}`,
      )
      .join(' union all ')}) as uses order by kind, ${nameOrder('name')}, id`,
    places.map(() => filterId),
  );
  return rows;
}

export async function assertUnused(ctx: Context, filterId: string, places = PLACES): Promise<void> {
  const uses = await filterUsage(ctx, filterId, places);
  if (uses.length === 0) return;
  const names = uses.slice(0, 3).map(({ kind, name }) => `${kind} ${name}`);
  const more = uses.length > names.length ? ` and ${uses.length - names.length} more` : '';
  throw new AppError('conflict', `This filter is used by ${names.join(', ')}${more}.`, { details: uses });
}

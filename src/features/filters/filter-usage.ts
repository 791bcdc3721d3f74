import type { Context } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/name-order.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Use } from './filter.schema.ts';

/** A kind of record that can refer to a filter. The feature that owns these records provides it. */
export interface FilterReferrer {
  kind: string;
  /** Selects `id`, `name` and `org_id` of the records that refer to the filter whose id is the only parameter. */
  sql: string;
  /** Throws if the filters of an organization, as they now are in the transaction, break a rule of the records. */
  assertAllowed?: (tx: Tx, orgId: string) => Promise<void>;
}

/** The records that use the filter, as far as the caller can see them. */
export async function filterUsage(
  ctx: Context,
  filterId: string,
  referrers: readonly FilterReferrer[],
): Promise<Use[]> {
  if (referrers.length === 0) return [];
  const { rows } = await ctx.tx.raw<{ rows: Use[] }>(
    `select kind, id, name from (${referrers
      .map(
        ({ kind, sql }) =>
          `select '${kind}' as kind, used.id, used.name from (${sql}) as used where ${inTenant(ctx.caller, 'used.org_id')}`,
      )
      .join(' union all ')}) as uses order by kind, ${nameOrder('name')}, id`,
    referrers.map(() => filterId),
  );
  return rows;
}

export async function assertUnused(
  ctx: Context,
  filterId: string,
  referrers: readonly FilterReferrer[],
): Promise<void> {
  const uses = await filterUsage(ctx, filterId, referrers);
  if (uses.length === 0) return;
  const names = uses.slice(0, 3).map(({ kind, name }) => `${kind} ${name}`);
  const more = uses.length > names.length ? ` and ${uses.length - names.length} more` : '';
  throw new AppError('conflict', `This filter is used by ${names.join(', ')}${more}.`, { details: uses });
}

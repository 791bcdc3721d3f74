import type { Model, QueryBuilder } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';

/** To whom something belongs: an organization, or a partner itself, which has it for all of its organizations. */
export interface Owner {
  partnerId: string;
  /** Null: the partner itself. */
  orgId: string | null;
}

/** Locks an owner, so that a limit of what it has, or the order of it, holds. It is locked before what it has. */
export async function lockOwner(tx: Tx, { partnerId, orgId }: Owner): Promise<void> {
  const [table, id] = orgId === null ? ['partners', partnerId] : ['organizations', orgId];
  await tx.raw('select from ?? where id = ? for no key update', [table, id]);
}

/**
 * Limits a query to the rows that the caller may see, of a table with `partner_id` and `org_id`. Those of a partner need
 * access to all its organizations, because they concern all of them.
 */
export const whereOwnerAccessible = <M extends Model, R>(
  query: QueryBuilder<M, R>,
  { caller }: Pick<Context, 'caller'>,
  table: string,
): QueryBuilder<M, R> =>
  query.where((either) => {
    void either.whereRaw(inTenant(caller, `${table}.org_id`));
    if (caller.partnerId !== null && caller.orgAccess === 'all') {
      void either.orWhere({ [`${table}.partner_id`]: caller.partnerId, [`${table}.org_id`]: null });
    }
  });

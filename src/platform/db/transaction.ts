import type { Knex } from 'knex';
import type { TenantScope } from './tenant-scope.ts';

declare const opened: unique symbol;
/** A transaction that `withTenant` or `withSystem` opened: nothing else makes one, so nothing queries without a scope. */
export type Tx = Knex.Transaction & { readonly [opened]: true };

/** Opens a transaction that sees what `tenant` may see. */
export async function withTenant<T>(
  db: Knex,
  tenant: TenantScope,
  work: (tx: Tx) => PromiseLike<T>,
): Promise<T> {
  return db.transaction(async (trx) => {
    if (tenant.scope === 'system') {
      await trx.raw(`set local role svc_system`);
    } else {
      await trx.raw(
        `select set_config('app.user_id', ?, true), set_config('app.partner_id', ?, true),
          set_config('app.org_access', ?, true), set_config('app.org_ids', ?, true)`,
        [tenant.userId ?? '', tenant.partnerId ?? '', tenant.orgAccess, `{${tenant.orgIds.join(',')}}`],
      );
    }
    return work(trx as Tx);
  });
}

/**
 * Opens a transaction across tenants: to find whose a credential is, for sweeps, and for nothing else.
 * @param _why  for the reader, and for the contract test that counts these
 */
export async function withSystem<T>(db: Knex, _why: string, work: (tx: Tx) => PromiseLike<T>): Promise<T> {
  return db.transaction(async (trx) => {
    await trx.raw(`set local role svc_system`);
    return work(trx as Tx);
  });
}

/** Lets the rest of the transaction see one more organization: the one that it is about to make. */
export async function extendTenant(tx: Tx, tenant: TenantScope, orgId: string): Promise<void> {
  await tx.raw(`select set_config('app.org_ids', ?, true)`, [`{${[...tenant.orgIds, orgId].join(',')}}`]);
}

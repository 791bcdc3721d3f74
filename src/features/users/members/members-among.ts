import type { Tx } from '../../../platform/db/transaction.ts';
import type { Tenant } from '../accounts/membership.queries.ts';

/** Those of the users who are members of the organization, or of the partner where that is null. */
export async function membersAmong(
  tx: Tx,
  { partnerId, orgId }: Omit<Tenant, 'scope'>,
  userIds: readonly string[],
): Promise<Set<string>> {
  const [table, column] = orgId === null ? ['partner_users', 'partner_id'] : ['organization_users', 'org_id'];
  const { rows } = await tx.raw<{ rows: { user_id: string }[] }>(
    `select user_id from ${table} where ${column} = ? and user_id = any(?::uuid[])`,
    [orgId ?? partnerId, [...userIds]] as string[],
  );
  return new Set(rows.map((row) => row.user_id));
}

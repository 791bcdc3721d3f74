import type { Tx } from '../../platform/db/transaction.ts';
import type { Context } from '../../platform/context.ts';
import type { CustomFieldType, Definitions } from './custom-field.schema.ts';
import type { CustomField } from './custom-field.model.ts';

export async function readDefinitions(
  ctx: Pick<Context, 'tx'>,
  orgIds: readonly string[],
  lock: '' | 'for share',
): Promise<ReadonlyMap<string, Definitions>> {
  const { rows } = await ctx.tx.raw<{ rows: { org_id: string; key: string; type: CustomFieldType }[] }>(
    `select org_id, key, type from custom_fields where org_id = any(?::uuid[]) order by id ${lock}`,
    [[...orgIds]],
  );
  const byOrg = new Map<string, Map<string, CustomFieldType>>();
  for (const { org_id: orgId, key, type } of rows) {
    const known = byOrg.get(orgId) ?? new Map<string, CustomFieldType>();
    byOrg.set(orgId, known.set(key, type));
  }
  return byOrg;
}

export async function countValues(ctx: Context, { orgId, key }: CustomField): Promise<number> {
  const { rows } = await ctx.tx.raw<{ rows: { devices: number }[] }>(
    'select count(*)::int as devices from devices where org_id = ? and jsonb_exists(custom_fields, ?)',
    [orgId, key],
  );
  return rows[0]?.devices ?? 0;
}

/** Removes the value of a field from each device that has one. Returns the IDs of these devices. */
export async function removeValues(
  tx: Tx,
  { orgId, key }: { orgId: string; key: string },
): Promise<string[]> {
  const holders = await tx.raw<{ rows: { id: string }[] }>(
    'select id from devices where org_id = ? and jsonb_exists(custom_fields, ?) order by id for no key update',
    [orgId, key],
  );
  const ids = holders.rows.map(({ id }) => id);
  await tx.raw(
    'update devices set custom_fields = custom_fields - ?::text, updated_at = now() where id = any(?::uuid[])',
    [key, ids],
  );
  return ids;
}

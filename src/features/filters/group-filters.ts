import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { type Conditions, parseConditions } from '../conditions/index.ts';
import { definitionsOf } from '../custom-fields/index.ts';
import { assertMayUse, checkedConditions } from './stored-conditions.ts';

/** Filters as dynamic groups use them: within their organization, independent of who saved them. */

interface FilterKey {
  orgId: string;
  filterId: string;
}

const customKindsOf = async (tx: Tx, orgId: string) =>
  (await definitionsOf({ tx }, [orgId])).get(orgId) ?? new Map();

const storedFilter = (tx: Tx, { orgId, filterId }: FilterKey) =>
  tx('saved_filters').where({ org_id: orgId, id: filterId });

/**
 * A filter and when it was last changed. Undefined if it does not exist; its conditions are undefined if they no longer
 * fit the custom fields of its organization.
 */
export async function filterWithin(
  tx: Tx,
  key: FilterKey,
): Promise<{ conditions: Conditions | undefined; updatedAt: Date } | undefined> {
  const row = await storedFilter(tx, key).first<{ conditions: string; updated_at: Date } | undefined>(
    'conditions',
    'updated_at',
  );
  if (row === undefined) return undefined;
  const customKinds = await customKindsOf(tx, key.orgId);
  const parsed = parseConditions(JSON.parse(row.conditions), { customKinds });
  return { conditions: parsed.ok ? parsed.conditions : undefined, updatedAt: row.updated_at };
}

/** Undefined if the filter does not exist or no longer fits the custom fields of its organization. */
export async function conditionsWithin(tx: Tx, key: FilterKey): Promise<Conditions | undefined> {
  return (await filterWithin(tx, key))?.conditions;
}

/**
 * The conditions of a filter for a group that the caller creates or changes. The filter is locked against deletion until
 * the end of the transaction. Returns undefined if it does not exist in the organization; throws `validation_failed` if
 * its conditions are no longer valid.
 */
export async function conditionsForGroup(ctx: Context, key: FilterKey): Promise<Conditions | undefined> {
  const row = await storedFilter(ctx.tx, key)
    .forShare()
    .first<{ conditions: string } | undefined>('conditions');
  if (row === undefined) return undefined;
  assertMayUse(ctx);
  const customKinds = await customKindsOf(ctx.tx, key.orgId);
  return checkedConditions(ctx, JSON.parse(row.conditions), 'conditions', customKinds);
}

/**
 * The conditions, by filter id, of those filters that refer to groups. Filters that cannot be parsed are left out: they
 * find no devices.
 * @param known  filters that are already parsed
 */
export async function conditionsNamingGroups(
  tx: Tx,
  { orgId, filterIds }: { orgId: string; filterIds: readonly string[] },
  known: ReadonlyMap<string, Conditions>,
): Promise<Map<string, Conditions>> {
  const found = new Map([...known].filter(([id]) => filterIds.includes(id)));
  const rows = await tx('saved_filters')
    .where('org_id', orgId)
    .whereRaw('id = any(?::uuid[])', [filterIds.filter((id) => !known.has(id))])
    .whereLike('conditions', '%groupId%')
    .select<{ id: string; conditions: string }[]>('id', 'conditions');
  for (const { id, conditions } of rows) {
    const parsed = parseConditions(JSON.parse(conditions), { customKinds: new Map() });
    if (parsed.ok) found.set(id, parsed.conditions);
  }
  return found;
}

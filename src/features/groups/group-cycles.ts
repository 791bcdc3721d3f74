import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { Conditions } from '../conditions/index.ts';
import { conditionsNamingGroups, type FilterReferrer } from '../filters/index.ts';

/** Tells the filters feature that groups use filters, and which rule a changed filter must not break. */
export const groupsUseFilters: FilterReferrer = {
  kind: 'group',
  sql: 'select id, name, org_id from device_groups where filter_id = ?',
  assertAllowed: assertNoGroupCycle,
};

interface DynamicGroup {
  id: string;
  name: string;
  /** The groups that its filter names; undefined if its filter depends on all groups. */
  reads: ReadonlySet<string> | undefined;
}

/**
 * The members of a dynamic group must not depend on themselves. Throws `conflict` with the names of the groups if the
 * filters of this transaction make them do so.
 * @param known  filters that the caller has already parsed, by id
 */
export async function assertNoGroupCycle(
  tx: Tx,
  orgId: string,
  known: ReadonlyMap<string, Conditions> = new Map(),
): Promise<void> {
  // Two concurrent changes, each allowed alone, could together form a cycle.
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('filters of dynamic groups ' || ?::text, 0))`, [
    orgId,
  ]);
  const rows = await tx('device_groups')
    .where({ org_id: orgId })
    .whereNotNull('filter_id')
    .select<{ id: string; name: string; filter_id: string }[]>('id', 'name', 'filter_id');
  const filterIds = rows.map((row) => row.filter_id);
  const conditions = await conditionsNamingGroups(tx, { orgId, filterIds }, known);
  const groups = new Map<string, DynamicGroup>();
  for (const { id, name, filter_id: filterId } of rows) {
    const found = conditions.get(filterId);
    if (found !== undefined) groups.set(id, { id, name, reads: groupsIn(found) });
  }
  const cycle = cycleIn(groups);
  if (cycle === undefined) return;
  const names = cycle.map(({ name }) => `"${name}"`).join(' → ');
  throw new AppError(
    'conflict',
    cycle.length === 1
      ? `The filter of the dynamic group ${names} refers to the group itself.`
      : `The filters of these dynamic groups form a cycle: ${names}.`,
    { details: cycle.map(({ id, name }) => ({ kind: 'group', id, name })) },
  );
}

function groupsIn(conditions: Conditions): ReadonlySet<string> | undefined {
  if (conditions.readAnyGroup) return undefined;
  return new Set(conditions.references().flatMap(({ kind, id }) => (kind === 'groupId' ? [id] : [])));
}

/** The first cycle, as a path that ends where it began. A group that depends on all groups is a cycle by itself. */
function cycleIn(groups: ReadonlyMap<string, DynamicGroup>): DynamicGroup[] | undefined {
  const done = new Set<string>();
  for (const start of groups.values()) {
    if (start.reads === undefined) return [start];
    const path: { group: DynamicGroup; next: string[] }[] = [{ group: start, next: [...start.reads] }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const id = top.next.pop();
      if (id === undefined) {
        done.add(top.group.id);
        path.pop();
        continue;
      }
      const group = groups.get(id);
      if (group === undefined || done.has(id)) continue;
      const at = path.findIndex((step) => step.group.id === id);
      if (at !== -1) {
        const cycle = path.slice(at).map((step) => step.group);
        return cycle.length === 1 ? cycle : [...cycle, group];
      }
      path.push({ group, next: [...(group.reads ?? [])] });
    }
  }
  return undefined;
}

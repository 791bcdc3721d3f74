import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { type Conditions, parseConditions } from '../conditions/index.ts';
import { definitionsOf } from '../custom-fields/index.ts';

/** Filters as dynamic groups use them: by their organization alone, whoever it was that saved them. */

/** `undefined` where the filter is not there, or does not fit the custom fields any more. */
export async function conditionsWithin(
  tx: Tx,
  { orgId, filterId }: { orgId: string; filterId: string },
): Promise<Conditions | undefined> {
  const row = await tx('saved_filters')
    .where({ org_id: orgId, id: filterId })
    .first<{ conditions: string } | undefined>('conditions');
  if (row === undefined) return undefined;
  const customKinds = (await definitionsOf({ tx }, [orgId])).get(orgId) ?? new Map();
  const parsed = parseConditions(JSON.parse(row.conditions), { customKinds });
  return parsed.ok ? parsed.conditions : undefined;
}

interface DynamicGroup {
  id: string;
  name: string;
  filterId: string;
  /** Groups that its filter asks about; `undefined`: about all of them. */
  reads: ReadonlySet<string> | undefined;
}

/**
 * Who is in a dynamic group must not follow from who is in it. Throws `conflict`, naming the groups, where the devices
 * of one would, with a filter as it is now in this transaction.
 */
export async function assertNoGroupCycle(tx: Tx, orgId: string): Promise<void> {
  // Two that are each fine alone may make a circle together.
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('filters of dynamic groups ' || ?::text, 0))`, [
    orgId,
  ]);
  const { rows } = await tx.raw<{
    rows: { id: string; name: string; filter_id: string; conditions: string }[];
  }>(
    `select g.id, g.name, g.filter_id, f.conditions
    from device_groups g join saved_filters f on f.org_id = g.org_id and f.id = g.filter_id
    where g.org_id = ? and f.conditions like '%groupId%'`,
    [orgId],
  );
  const groups = new Map<string, DynamicGroup>();
  for (const { id, name, filter_id: filterId, conditions } of rows) {
    groups.set(id, { id, name, filterId, reads: groupsIn(conditions) });
  }
  const circle = circleIn(groups);
  if (circle === undefined) return;
  const names = circle.map(({ name }) => `"${name}"`).join(' → ');
  throw new AppError(
    'conflict',
    circle.length === 1
      ? `The filter of the dynamic group ${names} refers to the group itself.`
      : `The filters of these dynamic groups refer to each other in a circle: ${names}.`,
    { details: circle.map(({ id, name }) => ({ kind: 'group', id, name })) },
  );
}

function groupsIn(conditions: string): ReadonlySet<string> | undefined {
  const parsed = parseConditions(JSON.parse(conditions), { customKinds: new Map() });
  // What cannot be read finds nothing, and asks for nothing.
  if (!parsed.ok) return new Set();
  if (parsed.conditions.readAnyGroup) return undefined;
  return new Set(parsed.conditions.references().flatMap(({ kind, id }) => (kind === 'groupId' ? [id] : [])));
}

/** The first circle, as a path that ends where it began; of a group that reads all, itself. */
function circleIn(groups: ReadonlyMap<string, DynamicGroup>): DynamicGroup[] | undefined {
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
        const circle = path.slice(at).map((step) => step.group);
        return circle.length === 1 ? circle : [...circle, group];
      }
      path.push({ group, next: [...(group.reads ?? [])] });
    }
  }
  return undefined;
}

import { lockByName, withTenant, type Tx } from '../../platform/db/transaction.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Conditions } from '../conditions/index.ts';
import { conditionsWithin, conditionsNamingGroups, type FilterReferrer } from '../filters/index.ts';
import { organizationScope } from './group.queries.ts';
import { AppError } from '../../platform/errors.ts';

type Part = Conditions['reads'] extends ReadonlySet<infer P> ? P : never;

/** Kinds of device changes: heartbeat data, status, group membership, stored fields. */
export type Occasion = 'heard' | 'turned' | 'grouped' | 'recorded';

/** Whether such a change can affect a part of the device. */
const MAY_CHANGE: Record<Occasion, (part: Part) => boolean> = {
  heard: (part) => part === 'lastSeenAt' || part === 'metrics',
  turned: (part) => part === 'status',
  grouped: (part) => part === 'groupIds',
  // Everything except heartbeat data, which has its own kind of change.
  recorded: (part) => part !== 'lastSeenAt' && part !== 'metrics',
};

interface Filter {
  orgId: string;
  filterId: string;
  updatedAt: Date;
}

interface Known {
  orgId: string;
  updatedAt: number;
  /** Undefined if the filter does not fit the custom fields; it is then assumed to depend on everything. */
  conditions: Pick<Conditions, 'reads' | 'dependsOnTime'> | undefined;
}

/**
 * The parts of devices that the filters of dynamic groups depend on, cached per version of a filter. They follow from the
 * names of fields alone, so they stay valid when the definitions of custom fields change.
 */
export class FilterDependencies {
  readonly #db: Db;
  readonly #known = new Map<string, Known>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Loads new and changed filters, and forgets those that are not in the list. */
  async refresh(filters: readonly Filter[]): Promise<void> {
    const asked = new Map(filters.map((one) => [one.filterId, one]));
    for (const [id, { updatedAt }] of this.#known) {
      if (asked.get(id)?.updatedAt.getTime() !== updatedAt) this.#known.delete(id);
    }
    for (const [filterId, { orgId, updatedAt }] of asked) {
      if (this.#known.has(filterId)) continue;
      const found = await withTenant(this.#db, organizationScope(orgId), (tx) =>
        conditionsWithin(tx, { orgId, filterId }),
      ).catch((error: unknown) => {
        // A filter that cannot be read must not stop the others. Reconciling its groups logs the error.
        if (isDatabaseAway(error)) throw error;
        return undefined;
      });
      const conditions = found && { reads: found.reads, dependsOnTime: found.dependsOnTime };
      this.#known.set(filterId, { orgId, updatedAt: updatedAt.getTime(), conditions });
    }
  }

  /** Call it when custom fields of the organization change: filters that did not fit may fit now. */
  customFieldChanged(orgId: string): void {
    for (const [id, known] of this.#known) {
      if (known.orgId === orgId && known.conditions === undefined) this.#known.delete(id);
    }
  }

  /** Whether a change of this kind can change the result of the filter. */
  isAffectedBy(filter: Filter, occasion: Occasion): boolean {
    return this.#some(filter, MAY_CHANGE[occasion]);
  }

  readsCustomFields(filter: Filter): boolean {
    return this.#some(filter, (part) => part === 'customFields');
  }

  dependsOnTime({ filterId }: Filter): boolean {
    return this.#known.get(filterId)?.conditions?.dependsOnTime ?? true;
  }

  #some({ filterId }: Filter, test: (part: Part) => boolean): boolean {
    const conditions = this.#known.get(filterId)?.conditions;
    return conditions === undefined || [...conditions.reads].some(test);
  }
}

/** Registers groups as users of filters, with the rule that a changed filter must not break. */
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
  await lockByName(tx, `filters of dynamic groups ${orgId}`);
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

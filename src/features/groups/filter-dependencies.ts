import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withTenant } from '../../platform/db/transaction.ts';
import type { Conditions } from '../conditions/index.ts';
import { conditionsWithin } from '../filters/index.ts';
import { organizationScope } from './organization-scope.ts';

type Part = Conditions['reads'] extends ReadonlySet<infer P> ? P : never;

/** Why a device may be another one for a filter. */
export type Occasion = 'heard' | 'turned' | 'grouped' | 'recorded';

/** Whether that part of a device may be another one then. */
const MAY_CHANGE: Record<Occasion, (part: Part) => boolean> = {
  heard: (part) => part === 'lastSeenAt' || part === 'metrics',
  turned: (part) => part === 'status',
  grouped: (part) => part === 'groupIds',
  // All but what is heard, which comes by itself.
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
  /** `undefined` where it does not fit the custom fields: it may read anything. */
  conditions: Pick<Conditions, 'reads' | 'dependsOnTime'> | undefined;
}

/**
 * What the filters of dynamic groups look at, read once for each state of a filter. It follows from the names of fields:
 * a filter that fits its custom fields reads the same however else they come to be defined.
 */
export class FilterDependencies {
  readonly #db: Db;
  readonly #known = new Map<string, Known>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Reads those that are not known as they are now, and forgets those that are not asked for any more. */
  async learn(filters: readonly Filter[]): Promise<void> {
    const asked = new Map(filters.map((one) => [one.filterId, one]));
    for (const [id, { updatedAt }] of this.#known) {
      if (asked.get(id)?.updatedAt.getTime() !== updatedAt) this.#known.delete(id);
    }
    for (const [filterId, { orgId, updatedAt }] of asked) {
      if (this.#known.has(filterId)) continue;
      const found = await withTenant(this.#db, organizationScope(orgId), (tx) =>
        conditionsWithin(tx, { orgId, filterId }),
      ).catch((error: unknown) => {
        // One filter that cannot be read must not stop the others. Its own groups say so in the log when they are settled.
        if (isDatabaseAway(error)) throw error;
        return undefined;
      });
      const conditions = found && { reads: found.reads, dependsOnTime: found.dependsOnTime };
      this.#known.set(filterId, { orgId, updatedAt: updatedAt.getTime(), conditions });
    }
  }

  /** Custom fields of the organization are defined otherwise: filters that did not fit them may do so now. */
  customFieldChanged(orgId: string): void {
    for (const [id, known] of this.#known) {
      if (known.orgId === orgId && known.conditions === undefined) this.#known.delete(id);
    }
  }

  /** Whether it may find other devices then. */
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

import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withTenant } from '../../platform/db/transaction.ts';
import type { Conditions } from '../conditions/index.ts';
import { conditionsWithin } from '../filters/index.ts';
import { organizationScope } from './organization-scope.ts';

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

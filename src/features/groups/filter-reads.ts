import type { Aspect } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { parseConditions } from '../conditions/index.ts';

interface Known {
  updatedAt: number;
  reads: ReadonlySet<Aspect>;
  dependsOnTime: boolean;
}

interface Filter {
  filterId: string;
  updatedAt: Date;
}

const EVERYTHING: ReadonlySet<Aspect> = new Set([
  'presence',
  'lastSeen',
  'metrics',
  'software',
  'groups',
  'custom',
  'facts',
]);

/** What the filters of dynamic groups look at, read once for each state of a filter. */
export class FilterReads {
  readonly #db: Db;
  readonly #known = new Map<string, Known>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Reads those that are not known as they are now, and forgets those that are not asked for any more. */
  async learn(filters: readonly Filter[]): Promise<void> {
    const asked = new Map(filters.map((one) => [one.filterId, one.updatedAt.getTime()]));
    for (const [id, { updatedAt }] of this.#known) if (asked.get(id) !== updatedAt) this.#known.delete(id);
    const missing = [...asked.keys()].filter((id) => !this.#known.has(id));
    for (const id of missing) {
      const row = await withSystem(this.#db, 'read the filter of a dynamic group', (tx) =>
        tx('saved_filters')
          .where({ id })
          .first<{ conditions: string; updated_at: Date } | undefined>('conditions', 'updated_at'),
      );
      if (row === undefined) continue;
      const parsed = parseConditions(JSON.parse(row.conditions), { customKinds: new Map() });
      const { reads, dependsOnTime } = parsed.ok
        ? parsed.conditions
        : { reads: EVERYTHING, dependsOnTime: true };
      this.#known.set(id, { updatedAt: row.updated_at.getTime(), reads, dependsOnTime });
    }
  }

  of({ filterId }: Pick<Filter, 'filterId'>): ReadonlySet<Aspect> {
    return this.#known.get(filterId)?.reads ?? EVERYTHING;
  }

  dependsOnTime({ filterId }: Pick<Filter, 'filterId'>): boolean {
    return this.#known.get(filterId)?.dependsOnTime ?? true;
  }
}

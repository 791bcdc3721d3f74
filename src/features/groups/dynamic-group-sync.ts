import type { DeviceHub } from '../../hub/index.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, withTenant } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import { CUSTOM_FIELD_CHANGED } from '../custom-fields/index.ts';
import { conditionsWithin, FILTER_CHANGED } from '../filters/index.ts';
import { FilterDependencies, type Occasion } from './filter-dependencies.ts';
import { reconcile } from './membership.ts';
import { organizationScope } from './organization-scope.ts';

/** What is changed together is looked at together. */
const GATHER_MS = 1000;
const AGAIN_MS = 5000;
/** Conditions about time are asked again after a minute; everything is compared after an hour, should it have been missed. */
const LOOK_MS = 20_000;
const TIMED_SECONDS = 60;
const WHOLE_SECONDS = 3600;
/** Of what happened in a group so much is kept. */
const CHANGES_KEPT = 10_000;
const CHANGES_KEPT_DAYS = 365;
/** Devices that one statement looks at. */
const AT_ONCE = 5000;
/** So long one round works for one organization. What is left of its groups is compared later. */
const ROUND_OF_ORGANIZATION_MS = 5000;

interface Parts {
  db: Db;
  hub: Pick<DeviceHub, 'devicesChanged'>;
  log: Logger;
  gatherMs?: number;
  lookMs?: number;
  /** How soon a group that could not be settled is tried again for the first time. */
  retryMs?: number;
}

interface DynamicGroup {
  id: string;
  orgId: string;
  filterId: string;
  updatedAt: Date;
  evaluatedAt: Date | null;
}

/** What a group is settled for. */
interface Change {
  reason: 'filter_match' | 'filter_changed';
  /** Left out: all devices of the organization. */
  only?: readonly string[];
}

/**
 * Keeps dynamic groups as their filters say, on the node where something has changed: only groups whose filter reads it,
 * and for the devices alone that it happened to. A group is settled under its lock, so that several nodes do not get in
 * each other's way, and each group in a transaction of its own, so that none waits for another. A group that cannot be
 * settled is set aside and compared as a whole later, and the time that one organization takes of a round is bounded: no
 * filter keeps other groups from being right.
 */
export class DynamicGroupSync {
  readonly #parts: Parts;
  readonly #reads: FilterDependencies;
  #touched = new Map<Occasion, Set<string>>();
  readonly #filters = new Set<string>();
  readonly #customFieldsOf = new Set<string>();
  readonly #aside: RetryBackoff;
  /** How long this round has worked for each organization. */
  #spentMs = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isPublishing = false;
  #isClosed = false;
  readonly #startedAt = new Date();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#reads = new FilterDependencies(parts.db);
    this.#aside = new RetryBackoff(parts.retryMs === undefined ? {} : { firstMs: parts.retryMs });
  }

  /** Groups that could not be settled; more than none for long means that someone must look. */
  failing(): number {
    return this.#aside.size;
  }

  start(): void {
    this.#look(0);
  }

  /** Listens to changes of definitions on this node, so that one node does the work for all. */
  subscribe(events: Pick<DeviceHub['events'], 'onPublished'>): void {
    events.onPublished(FILTER_CHANGED, ({ filterId }) => this.filterChanged(filterId));
    events.onPublished(CUSTOM_FIELD_CHANGED, ({ orgId }) => this.customFieldChanged(orgId));
  }

  /** Something of the devices is another than before, and in the database. */
  touched(deviceIds: readonly string[], occasion: Occasion): void {
    const touched = this.#touchedOn(this.#isPublishing ? 'grouped' : occasion);
    for (const id of deviceIds) touched.add(id);
    this.#schedule(this.#parts.gatherMs ?? GATHER_MS);
  }

  /** The filter says something else since. */
  filterChanged(filterId: string): void {
    this.#filters.add(filterId);
    this.#schedule(0);
  }

  /** A custom field of the organization is read otherwise since. */
  customFieldChanged(orgId: string): void {
    this.#customFieldsOf.add(orgId);
    this.#schedule(0);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#lookTimer);
    await this.#running;
  }

  #touchedOn(occasion: Occasion): Set<string> {
    const touched = this.#touched.get(occasion) ?? new Set();
    this.#touched.set(occasion, touched);
    return touched;
  }

  #schedule(ms: number): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#then(() => this.#follow());
    }, ms);
  }

  #look(ms: number): void {
    if (this.#isClosed) return;
    this.#lookTimer = setTimeout(() => {
      this.#then(() => this.#compareDue());
      void this.#running.then(() => this.#look(this.#parts.lookMs ?? LOOK_MS));
    }, ms).unref();
  }

  /** One thing after the other. */
  #then(work: () => Promise<void>): void {
    this.#running = this.#running
      .then(() => {
        this.#spentMs = new Map();
        return this.#isClosed ? undefined : work();
      })
      .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'groups.sync_failed'));
  }

  async #follow(): Promise<void> {
    const touched = this.#touched;
    const filters = new Set(this.#filters);
    const customFieldsOf = new Set(this.#customFieldsOf);
    this.#touched = new Map();
    this.#filters.clear();
    this.#customFieldsOf.clear();
    try {
      const groups = await this.#groups();
      if (groups.length === 0) return;
      for (const orgId of customFieldsOf) this.#reads.customFieldChanged(orgId);
      await this.#reads.learn(groups);
      for (const group of groups) {
        const isReadOtherwise = customFieldsOf.has(group.orgId) && this.#reads.readsCustomFields(group);
        if (filters.has(group.filterId)) await this.#reconcileIsolated(group, { reason: 'filter_changed' });
        else if (isReadOtherwise) await this.#reconcileIsolated(group, { reason: 'filter_match' });
      }
      await this.#followDevices(groups, touched);
    } catch (error) {
      for (const [occasion, ids] of touched) {
        const again = this.#touchedOn(occasion);
        for (const id of ids) again.add(id);
      }
      for (const id of filters) this.#filters.add(id);
      for (const orgId of customFieldsOf) this.#customFieldsOf.add(orgId);
      this.#schedule(AGAIN_MS);
      throw error;
    }
  }

  async #followDevices(
    groups: readonly DynamicGroup[],
    touched: ReadonlyMap<Occasion, ReadonlySet<string>>,
  ): Promise<void> {
    const heeded = [...touched].filter(([occasion]) =>
      groups.some((group) => this.#reads.isAffectedBy(group, occasion)),
    );
    const mattering = [...new Set(heeded.flatMap(([, ids]) => [...ids]))];
    for (let start = 0; start < mattering.length; start += AT_ONCE) {
      const byOrganization = await this.#organizationsOf(mattering.slice(start, start + AT_ONCE), groups);
      for (const group of groups) {
        const mine = heeded.filter(([occasion]) => this.#reads.isAffectedBy(group, occasion));
        const only = (byOrganization.get(group.orgId) ?? []).filter((id) =>
          mine.some(([, ids]) => ids.has(id)),
        );
        if (only.length > 0) await this.#reconcileIsolated(group, { reason: 'filter_match', only });
      }
    }
  }

  /** Those whose conditions are about time, after a minute; all after an hour, and when a server starts. */
  async #compareDue(): Promise<void> {
    const groups = await this.#groups();
    await this.#reads.learn(groups);
    this.#aside.keepOnly(new Set(groups.map(({ id }) => id)));
    for (const group of groups) {
      if (this.#isClosed) return;
      if (this.#aside.has(group.id)) {
        // Compared as a whole, whatever it has missed meanwhile.
        if (this.#aside.isDue(group.id)) await this.#reconcileIsolated(group, { reason: 'filter_match' });
        continue;
      }
      const seconds = this.#reads.dependsOnTime(group) ? TIMED_SECONDS : WHOLE_SECONDS;
      const due = Math.max(Date.now() - seconds * 1000, this.#startedAt.getTime());
      if (group.evaluatedAt !== null && group.evaluatedAt.getTime() >= due) continue;
      const isMine = await this.#isolated(group, () => this.#claim(group));
      if (isMine === true) await this.#reconcileIsolated(group, { reason: 'filter_match' });
    }
  }

  /** Settles the group unless it is set aside. */
  async #reconcileIsolated(group: DynamicGroup, change: Change): Promise<void> {
    if (this.#aside.has(group.id) && !this.#aside.isDue(group.id)) return;
    const isWhole = this.#aside.has(group.id);
    const spentMs = this.#spentMs.get(group.orgId) ?? 0;
    if (spentMs > ROUND_OF_ORGANIZATION_MS) {
      if (!isWhole) this.#aside.put(group.id);
      return;
    }
    const begunAt = performance.now();
    const { reason } = change;
    const done = await this.#isolated(group, () => this.#reconcile(group, isWhole ? { reason } : change));
    this.#spentMs.set(group.orgId, spentMs + performance.now() - begunAt);
    if (done !== undefined) this.#aside.release(group.id);
  }

  /** Answers nothing where it has failed: the group is set aside then. Throws where the database does not answer. */
  async #isolated<T>({ id, orgId }: DynamicGroup, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      const retryMs = this.#aside.put(id);
      this.#parts.log.warn({ err: error, groupId: id, orgId, retryMs }, 'groups.not_reconciled');
      return undefined;
    }
  }

  /** Whether it is for this node to compare the group: another one may have begun. */
  async #claim({ id, orgId, evaluatedAt }: DynamicGroup): Promise<boolean> {
    return withTenant(this.#parts.db, organizationScope(orgId), async (tx) => {
      const { rows } = await tx.raw<{ rows: unknown[] }>(
        `update device_groups set evaluated_at = now() where org_id = ? and id = ? and evaluated_at is not distinct from ?
        returning id`,
        [orgId, id, evaluatedAt],
      );
      if (rows.length === 0) return false;
      await tx.raw(
        `delete from device_group_changes where org_id = ? and group_id = ? and (at < now() - make_interval(days => ?)
          or id <= (select id from device_group_changes where org_id = ? and group_id = ? order by id desc offset ? limit 1))`,
        [orgId, id, CHANGES_KEPT_DAYS, orgId, id, CHANGES_KEPT],
      );
      return true;
    });
  }

  /** Answers how many devices have joined or left. */
  async #reconcile({ id, orgId }: DynamicGroup, { reason, only }: Change): Promise<number> {
    const changed = await withTenant(this.#parts.db, organizationScope(orgId), async (tx) => {
      const { rows } = await tx.raw<{ rows: { filter_id: string | null }[] }>(
        'select filter_id from device_groups where org_id = ? and id = ? for no key update',
        [orgId, id],
      );
      const filterId = rows[0]?.filter_id ?? null;
      if (filterId === null) return [];
      const conditions = await conditionsWithin(tx, { orgId, filterId });
      // One that does not fit any more finds nothing that could be relied on: its group stays as it is until it is mended.
      if (conditions === undefined) return [];
      return reconcile(tx, { id, orgId }, { conditions, reason, only });
    });
    if (changed.length === 0) return 0;
    this.#isPublishing = true;
    try {
      this.#parts.hub.devicesChanged(changed);
    } finally {
      this.#isPublishing = false;
    }
    return changed.length;
  }

  async #groups(): Promise<DynamicGroup[]> {
    return withSystem(this.#parts.db, 'find the dynamic groups of all organizations', (tx) =>
      tx('device_groups as g')
        .join('saved_filters as f', (on) => void on.on('f.org_id', 'g.org_id').andOn('f.id', 'g.filter_id'))
        .select<DynamicGroup[]>({
          id: 'g.id',
          orgId: 'g.org_id',
          filterId: 'g.filter_id',
          updatedAt: 'f.updated_at',
          evaluatedAt: 'g.evaluated_at',
        })
        .orderBy('g.id'),
    );
  }

  async #organizationsOf(
    deviceIds: readonly string[],
    groups: readonly DynamicGroup[],
  ): Promise<Map<string, string[]>> {
    const rows = await withSystem(this.#parts.db, 'find whose the devices are that have changed', (tx) =>
      tx('devices')
        .whereRaw('id = any(?::uuid[])', [[...deviceIds]])
        .whereRaw('org_id = any(?::uuid[])', [[...new Set(groups.map(({ orgId }) => orgId))]])
        .select<{ id: string; org_id: string }[]>('id', 'org_id'),
    );
    const byOrganization = new Map<string, string[]>();
    for (const { id, org_id: orgId } of rows) {
      const ids = byOrganization.get(orgId);
      if (ids === undefined) byOrganization.set(orgId, [id]);
      else ids.push(id);
    }
    return byOrganization;
  }
}

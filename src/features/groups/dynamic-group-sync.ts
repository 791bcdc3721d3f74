import {
  claimEvaluation,
  forgetOldChanges,
  lockFilterOfGroup,
  reconcile,
  organizationScope,
} from './group.queries.ts';
import { clock, type Timer } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, withTenant } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import { CUSTOM_FIELD_CHANGED } from '../custom-fields/index.ts';
import { FILTER_CHANGED, filterWithin } from '../filters/index.ts';
import { FilterDependencies, type Occasion } from './filter-dependencies.ts';

/** Changes within this time are processed together. */
const COLLECT_MS = 1000;
const RETRY_MS = 5000;
/** Groups with time conditions are reconciled every minute; all groups every hour, in case a change was missed. */
const CHECK_MS = 20_000;
const TIMED_SECONDS = 60;
const WHOLE_SECONDS = 3600;
/** How many membership changes are kept per group. */
const CHANGES_KEPT = 10_000;
const CHANGES_KEPT_DAYS = 365;
/** Devices per statement. */
const BATCH_SIZE = 5000;
/** The time budget of one organization per round. Its remaining groups are reconciled later. */
const ORGANIZATION_BUDGET_MS = 5000;

interface Parts {
  db: Db;
  hub: Pick<DeviceHub, 'devicesChanged'>;
  log: Logger;
  collectMs?: number;
  checkMs?: number;
  /** The first delay before a failed group is retried. */
  retryMs?: number;
}

interface DynamicGroup {
  id: string;
  orgId: string;
  filterId: string;
  updatedAt: Date;
  evaluatedAt: Date | null;
}

/** Why a group is reconciled. */
interface Change {
  reason: 'filter_match' | 'filter_changed';
  /** The devices to examine; undefined: all devices of the organization. */
  only?: readonly string[];
}

/**
 * Keeps the members of dynamic groups in sync with their filters. The node on which a change happens reconciles only the
 * affected groups, and only for the changed devices. Each group is reconciled in its own transaction and under its lock,
 * so nodes do not interfere and groups do not wait for each other. A group that fails is retried later, in full, and the
 * time per organization and round is limited, so that no filter can delay the groups of others.
 */
export class DynamicGroupSync {
  readonly #parts: Parts;
  readonly #reads: FilterDependencies;
  #touched = new Map<Occasion, Set<string>>();
  readonly #filters = new Set<string>();
  readonly #customFieldsOf = new Set<string>();
  readonly #failed: RetryBackoff;
  /** The time spent in this round, by organization. */
  #spentMs = new Map<string, number>();
  #timer: Timer | undefined;
  #checkTimer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isPublishing = false;
  /** The last changes could not be followed. */
  #isFailing = false;
  #isClosed = false;
  readonly #startedAt = clock.date();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#reads = new FilterDependencies(parts.db);
    this.#failed = new RetryBackoff(parts.retryMs === undefined ? {} : { firstMs: parts.retryMs });
  }

  /** The number of groups that cannot be reconciled. An operator must act if it stays above zero. */
  failing(): number {
    return this.#failed.size;
  }

  start(): void {
    this.#check(0);
  }

  /** Listens to changes of definitions on this node, so that one node does the work for all. */
  subscribe(events: Pick<DeviceHub['events'], 'onPublished'>): void {
    events.onPublished(FILTER_CHANGED, ({ filterId }) => this.filterChanged(filterId));
    events.onPublished(CUSTOM_FIELD_CHANGED, ({ orgId }) => this.customFieldChanged(orgId));
  }

  /** Call it after stored data of the devices has changed. */
  touched(deviceIds: readonly string[], occasion: Occasion): void {
    const touched = this.#touchedOn(this.#isPublishing ? 'grouped' : occasion);
    for (const id of deviceIds) touched.add(id);
    this.#schedule(this.#parts.collectMs ?? COLLECT_MS);
  }

  /** Call it after the conditions of a filter have changed. */
  filterChanged(filterId: string): void {
    this.#filters.add(filterId);
    this.#schedule(0);
  }

  /** Call it after the definition of a custom field has changed. */
  customFieldChanged(orgId: string): void {
    this.#customFieldsOf.add(orgId);
    this.#schedule(0);
  }

  /** Reconciles now what has changed and what is due. It goes on waiting while the database is unavailable. */
  async settle(): Promise<void> {
    do {
      clock.clear(this.#timer);
      this.#timer = undefined;
      this.#then(() => this.#follow());
      this.#then(() => this.#compareDue());
      await this.#running;
    } while (this.#hasChanges && !this.#isFailing && !this.#isClosed);
  }

  get #hasChanges(): boolean {
    return this.#filters.size > 0 || this.#customFieldsOf.size > 0 || this.#touched.size > 0;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    clock.clear(this.#checkTimer);
    await this.#running;
  }

  #touchedOn(occasion: Occasion): Set<string> {
    const touched = this.#touched.get(occasion) ?? new Set();
    this.#touched.set(occasion, touched);
    return touched;
  }

  #schedule(ms: number): void {
    if (this.#isClosed) return;
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      this.#then(() => this.#follow());
    }, ms);
  }

  #check(ms: number): void {
    if (this.#isClosed) return;
    this.#checkTimer = clock
      .setTimeout(() => {
        this.#then(() => this.#compareDue());
        void this.#running.then(() => this.#check(this.#parts.checkMs ?? CHECK_MS));
      }, ms)
      .unref();
  }

  /** Runs work sequentially. */
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
    this.#isFailing = false;
    this.#filters.clear();
    this.#customFieldsOf.clear();
    try {
      const groups = await this.#groups();
      if (groups.length === 0) return;
      for (const orgId of customFieldsOf) this.#reads.customFieldChanged(orgId);
      await this.#reads.refresh(groups);
      for (const group of groups) {
        const readsChangedField = customFieldsOf.has(group.orgId) && this.#reads.readsCustomFields(group);
        if (filters.has(group.filterId)) await this.#reconcileIsolated(group, { reason: 'filter_changed' });
        else if (readsChangedField) await this.#reconcileIsolated(group, { reason: 'filter_match' });
      }
      await this.#followDevices(groups, touched);
    } catch (error) {
      for (const [occasion, ids] of touched) {
        const again = this.#touchedOn(occasion);
        for (const id of ids) again.add(id);
      }
      for (const id of filters) this.#filters.add(id);
      for (const orgId of customFieldsOf) this.#customFieldsOf.add(orgId);
      this.#isFailing = true;
      this.#schedule(RETRY_MS);
      throw error;
    }
  }

  async #followDevices(
    groups: readonly DynamicGroup[],
    touched: ReadonlyMap<Occasion, ReadonlySet<string>>,
  ): Promise<void> {
    const relevant = [...touched].filter(([occasion]) =>
      groups.some((group) => this.#reads.isAffectedBy(group, occasion)),
    );
    const affected = [...new Set(relevant.flatMap(([, ids]) => [...ids]))];
    for (let start = 0; start < affected.length; start += BATCH_SIZE) {
      const byOrganization = await this.#organizationsOf(affected.slice(start, start + BATCH_SIZE), groups);
      for (const group of groups) {
        const mine = relevant.filter(([occasion]) => this.#reads.isAffectedBy(group, occasion));
        const only = (byOrganization.get(group.orgId) ?? []).filter((id) =>
          mine.some(([, ids]) => ids.has(id)),
        );
        if (only.length > 0) await this.#reconcileIsolated(group, { reason: 'filter_match', only });
      }
    }
  }

  /** Reconciles groups that are due: by time conditions, by the hourly check, or because the server started. */
  async #compareDue(): Promise<void> {
    const groups = await this.#groups();
    await this.#reads.refresh(groups);
    this.#failed.keepOnly(new Set(groups.map(({ id }) => id)));
    for (const group of groups) {
      if (this.#isClosed) return;
      if (this.#failed.has(group.id)) {
        // In full, because it has missed changes meanwhile.
        if (this.#failed.isDue(group.id)) await this.#reconcileIsolated(group, { reason: 'filter_match' });
        continue;
      }
      const seconds = this.#reads.dependsOnTime(group) ? TIMED_SECONDS : WHOLE_SECONDS;
      const due = Math.max(clock.now() - seconds * 1000, this.#startedAt.getTime());
      if (group.evaluatedAt !== null && group.evaluatedAt.getTime() >= due) continue;
      const isMine = await this.#isolated(group, () => this.#claim(group));
      if (isMine === true) await this.#reconcileIsolated(group, { reason: 'filter_match' });
    }
  }

  /** Reconciles the group unless it is waiting for its retry. */
  async #reconcileIsolated(group: DynamicGroup, change: Change): Promise<void> {
    if (this.#failed.has(group.id) && !this.#failed.isDue(group.id)) return;
    const isWhole = this.#failed.has(group.id);
    const spentMs = this.#spentMs.get(group.orgId) ?? 0;
    if (spentMs > ORGANIZATION_BUDGET_MS) {
      if (!isWhole) this.#failed.put(group.id);
      return;
    }
    const begunAt = clock.monotonic();
    const { reason } = change;
    const done = await this.#isolated(group, () => this.#reconcile(group, isWhole ? { reason } : change));
    this.#spentMs.set(group.orgId, spentMs + clock.monotonic() - begunAt);
    if (done !== undefined) this.#failed.release(group.id);
  }

  /** Returns undefined and schedules a retry if the work fails. Throws if the database does not respond. */
  async #isolated<T>({ id, orgId }: DynamicGroup, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      const retryMs = this.#failed.put(id);
      this.#parts.log.warn({ err: error, groupId: id, orgId, retryMs }, 'groups.not_reconciled');
      return undefined;
    }
  }

  /** Returns false if another node has already started to reconcile the group. */
  async #claim({ id, orgId, evaluatedAt }: DynamicGroup): Promise<boolean> {
    return withTenant(this.#parts.db, organizationScope(orgId), async (tx) => {
      if (!(await claimEvaluation(tx, { id, orgId, evaluatedAt }))) return false;
      await forgetOldChanges(tx, { id, orgId }, { days: CHANGES_KEPT_DAYS, atMost: CHANGES_KEPT });
      return true;
    });
  }

  /**
   * A filter that has changed since the group was listed is applied to all devices, for that reason, as it will be when
   * its change is followed.
   * @returns how many devices joined or left
   */
  async #reconcile(group: DynamicGroup, change: Change): Promise<number> {
    const { id, orgId } = group;
    const changed = await withTenant(this.#parts.db, organizationScope(orgId), async (tx) => {
      const filterId = await lockFilterOfGroup(tx, { id, orgId });
      if (filterId === null) return [];
      const filter = await filterWithin(tx, { orgId, filterId });
      // The group of an invalid filter keeps its members until the filter is corrected.
      if (filter?.conditions === undefined) return [];
      const isNewVersion =
        filterId === group.filterId && filter.updatedAt.getTime() !== group.updatedAt.getTime();
      const { reason, only }: Change = isNewVersion ? { reason: 'filter_changed' } : change;
      return reconcile(tx, { id, orgId }, { conditions: filter.conditions, reason, only });
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
    const rows = await withSystem(this.#parts.db, 'find the organizations of changed devices', (tx) =>
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

import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DevicesSubscribe, DeviceSummary } from '../../protocol/index.ts';
import { type DeviceChange, recordChange } from '../subscriptions/device-change.ts';
import {
  ALL_ASPECTS,
  type Aspects,
  aspectsOf,
  type FleetDevice,
  PLACE,
  SHOWN,
  summaryOf,
  UNREAD,
} from './fleet-device.ts';
import { byHostname, PAGE_DEVICES, type PageReader } from '../subscriptions/device-pages.ts';
import { FollowedWeight } from './filter-weight.ts';
import { FleetView } from './fleet-view.ts';
import type { FleetStore, LiveRules } from '../ports.ts';
import { sight, type Sight } from '../subscriptions/subscription-scope.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { Turns, UNHURRIED_MS } from './time-slice.ts';

/** Conditions about time are asked again this often. */
const SWEEP_MS = 15_000;

/** Conditions that somebody follows: one and the same for all who do. */
interface Followed {
  key: string;
  rules: LiveRules;
  reads: Aspects;
  followers: Set<Follower>;
}

/** One subscription that follows conditions. */
interface Follower {
  readonly subscription: Subscription;
  readonly caller: Caller;
  readonly asked: DevicesSubscribe;
  readonly sees: Sight;
  /** It cannot go on. */
  readonly end: (why: AppError) => void;
  followed: Followed | undefined;
  readsSoftware: boolean;
  /** The organizations that are kept in memory for it. */
  readonly held: Set<string>;
  /** Counts what was changed about its filter, so that only the latest is taken. */
  version: number;
  isOver: boolean;
}

interface Parts {
  store: FleetStore;
  refreshed: (device: DeviceSummary) => DeviceSummary;
  log: Logger;
  devicesMax?: number;
  sweepMs?: number;
}

/**
 * Live filters of this node. What changes of a device is asked of those conditions only that read it, once for all who
 * follow them, and whoever follows them sees the device enter or leave.
 */
export class LiveFilters {
  readonly view: FleetView;
  readonly #store: FleetStore;
  readonly #log: Logger;
  readonly #followed = new Map<string, Followed>();
  readonly #followers = new Map<Subscription, Follower>();
  /** Told to have left: one that is back may have been read again before word of it comes. */
  readonly #gone = new Set<string>();
  readonly #weight = new FollowedWeight();
  readonly #sweepMs: number;
  #sweepTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor({ store, log, sweepMs = SWEEP_MS, ...parts }: Parts) {
    this.#store = store;
    this.#log = log;
    this.#sweepMs = sweepMs;
    const onFound = (device: FleetDevice, aspects: Aspects) =>
      this.#changed(device, aspects, recordChange(summaryOf(device)));
    this.view = new FleetView({ store, ...parts, onFound });
  }

  get size(): number {
    return this.#followers.size;
  }

  /** Conditions, each counted once however many follow it. */
  get conditions(): number {
    return this.#followed.size;
  }

  has(subscription: Subscription): boolean {
    return this.#followers.has(subscription);
  }

  /** From now on the subscription sees devices enter and leave. Throws where the conditions cannot be followed. */
  async follow(subscription: Subscription, end: (why: AppError) => void): Promise<void> {
    const { caller, filter: asked } = subscription;
    const follower: Follower = {
      subscription,
      caller,
      asked,
      sees: sight(caller, asked),
      end,
      followed: undefined,
      readsSoftware: false,
      held: new Set(),
      version: 0,
      isOver: false,
    };
    this.#followers.set(subscription, follower);
    try {
      const reach = await this.#store.reach(caller, asked);
      await this.#takeRules(follower);
      if (follower.isOver) return;
      const organizations = reach.filter(({ orgId }) => !follower.held.has(orgId));
      this.view.hold(organizations);
      for (const { orgId } of organizations) follower.held.add(orgId);
    } catch (error) {
      this.leave(subscription);
      throw error;
    }
  }

  leave(subscription: Subscription): void {
    const follower = this.#followers.get(subscription);
    if (follower === undefined) return;
    this.#followers.delete(subscription);
    if (this.#followers.size === 0) this.#gone.clear();
    follower.isOver = true;
    this.#unfollow(follower);
    if (follower.readsSoftware) this.view.releaseSoftware();
    this.view.release(follower.held);
    if (this.#followed.size === 0) this.#stopSweeping();
  }

  /** Reads what the subscription is to show now. Of a long list, no more than the ids are kept meanwhile. */
  pages(subscription: Subscription): PageReader {
    let ids: readonly string[] | undefined;
    let at = 0;
    return async () => {
      ids ??= await this.#matching(subscription);
      const devices: DeviceSummary[] = [];
      for (; at < ids.length && devices.length < PAGE_DEVICES; at += 1) {
        const device = this.view.get(ids[at] ?? '');
        // It may have come to be another one since.
        if (device !== undefined && this.#belongs(subscription, device)) devices.push(summaryOf(device));
      }
      return { devices, isLast: at >= ids.length };
    };
  }

  async #matching(subscription: Subscription): Promise<string[]> {
    const follower = this.#followers.get(subscription);
    if (follower === undefined) return [];
    await this.#allRead(follower);
    // Before its conditions were there, nobody could have said that a device which had left belongs again.
    subscription.readsFromHere();
    const found: FleetDevice[] = [];
    const turns = new Turns();
    for (const orgId of follower.held) {
      for (const device of this.view.of(orgId)) {
        if (turns.isOver) await turns.next();
        if (this.#belongs(subscription, device)) found.push(device);
      }
    }
    return found.sort(byHostname).map(({ id }) => id);
  }

  #belongs(subscription: Subscription, device: FleetDevice): boolean {
    const follower = this.#followers.get(subscription);
    const rules = follower?.followed?.rules;
    return follower?.sees(device) === true && rules?.matches(device, Date.now()) === true;
  }

  /** What was told of a device. */
  told(change: DeviceChange): void {
    if (this.#followers.size === 0) return;
    const aspects = this.view.told(change);
    const device = this.view.get(change.deviceId);
    if (device !== undefined && aspects !== 0) this.#judge(device, aspects);
  }

  /**
   * A device that was read anew.
   * @param change  what it is to those who were shown it before
   */
  refreshed(read: FleetDevice, change: DeviceChange): void {
    // Each holds it once: where all do, nobody has to be asked.
    if (this.view.holdersOf(read.orgId) < this.#followers.size) {
      for (const follower of this.#followers.values()) {
        if (!follower.held.has(read.orgId) && follower.sees(read)) this.#adopt(follower, read.orgId);
      }
    }
    const isBack = this.#gone.delete(read.id);
    const differing = this.view.put(read);
    const aspects = isBack ? ALL_ASPECTS : differing;
    const device = this.view.get(read.id);
    if (device !== undefined) return this.#changed(device, aspects, change);
    for (const { subscription } of this.#followers.values()) subscription.left(read.id);
  }

  left(deviceId: string): void {
    if (this.#followers.size > 0) this.#gone.add(deviceId);
    this.view.remove(deviceId);
  }

  /** A saved filter is another one now, or gone: whoever follows it goes on with the new one, or is told that it ends. */
  filterChanged(filterId: string): void {
    for (const follower of this.#followers.values()) {
      if (follower.asked.filterId !== filterId) continue;
      follower.version += 1;
      // One that has not begun yet reads it again by itself.
      if (follower.followed !== undefined) void this.#goOn(follower);
    }
  }

  /** A custom field is defined otherwise now: whoever reads it goes on by the new definition, or is told that it ends. */
  customFieldChanged(orgId: string, key: string): void {
    for (const follower of this.#followers.values()) {
      const { scope, orgAccess, orgIds } = follower.caller;
      if (scope !== 'system' && orgAccess !== 'all' && !orgIds.includes(orgId)) continue;
      // What is read at this moment may be by the definition of before.
      follower.version += 1;
      if (follower.followed?.rules.customFields.has(key) === true) void this.#goOn(follower);
    }
  }

  /** Something may have been missed: everything is read and shown anew. */
  resync(): void {
    if (this.#followers.size === 0) return;
    this.view.reload();
    for (const { subscription } of this.#followers.values()) subscription.reread();
  }

  close(): void {
    this.#isClosed = true;
    this.#stopSweeping();
  }

  /** What the follower looks at may come to be more while it is read. */
  async #allRead(follower: Follower): Promise<void> {
    let count = -1;
    while (count !== follower.held.size) {
      count = follower.held.size;
      await this.view.ready(follower.held);
    }
  }

  /** An organization that was not there, or not seen, when the follower came. */
  #adopt(follower: Follower, orgId: string): void {
    try {
      this.view.hold([{ orgId, devices: 0 }]);
    } catch (error) {
      if (error instanceof AppError) return follower.end(error);
      throw error;
    }
    follower.held.add(orgId);
    const judge = () => {
      if (follower.followed === undefined) return;
      for (const device of this.view.of(orgId)) judgeFor([follower], follower.followed, device);
    };
    this.view
      .ready([orgId])
      .then(judge)
      .catch((error: unknown) => this.#log.warn({ err: error }, 'hub.live_organization_not_read'));
  }

  /** @param change  what it is to those who were shown the device before */
  #changed(device: FleetDevice, aspects: Aspects, change: DeviceChange): void {
    const isElsewhere = (aspects & PLACE) !== 0;
    if (isElsewhere) {
      for (const { subscription, sees } of this.#followers.values()) {
        if (!sees(device)) subscription.left(device.id);
      }
    }
    this.#judge(device, isElsewhere ? ALL_ASPECTS : aspects);
    if ((aspects & SHOWN) === 0) return;
    for (const { subscription } of this.#followers.values()) subscription.changed(change);
  }

  #judge(device: FleetDevice, aspects: Aspects): void {
    const shown = once(() => summaryOf(device));
    for (const followed of this.#followed.values()) {
      if ((followed.reads & aspects) !== 0) this.#judgeBy(followed, device, shown);
    }
  }

  /** Conditions that cannot be asked end for those who follow them, and for nobody else. */
  #judgeBy(followed: Followed, device: FleetDevice, shown?: () => DeviceSummary): void {
    try {
      judgeFor(followed.followers, followed, device, shown);
    } catch (error) {
      this.#log.error({ err: error, deviceId: device.id }, 'hub.live_conditions_failed');
      const why = new AppError('unavailable', 'The conditions could not be evaluated. Subscribe again.');
      for (const follower of followed.followers) follower.end(why);
    }
  }

  /** Reads the conditions until they are the latest. Answers whether they say something else than before. */
  async #takeRules(follower: Follower): Promise<boolean> {
    for (;;) {
      const { version } = follower;
      const { key, rules } = await this.#store.rules(follower.caller, follower.asked);
      if (follower.isOver) return false;
      if (follower.version !== version) continue;
      if (follower.followed?.key === key) return false;
      this.#unfollow(follower);
      this.#weight.take(follower.caller.userId, rules.weight, !this.#followed.has(key));
      const readsSoftware = rules.reads.has('software');
      if (readsSoftware && !follower.readsSoftware) this.view.holdSoftware();
      if (!readsSoftware && follower.readsSoftware) this.view.releaseSoftware();
      follower.readsSoftware = readsSoftware;
      const followed = this.#followed.get(key) ?? {
        key,
        rules,
        reads: aspectsOf(rules.reads),
        followers: new Set(),
      };
      this.#followed.set(key, followed);
      followed.followers.add(follower);
      follower.followed = followed;
      if (rules.dependsOnTime) this.#startSweeping();
      return true;
    }
  }

  async #goOn(follower: Follower): Promise<void> {
    try {
      if (await this.#takeRules(follower)) follower.subscription.reread();
    } catch (error) {
      if (follower.isOver) return;
      if (!(error instanceof AppError)) this.#log.warn({ err: error }, 'hub.live_filter_not_read');
      follower.end(
        error instanceof AppError
          ? error
          : new AppError('unavailable', 'The filter was changed and could not be read. Subscribe again.'),
      );
    }
  }

  #unfollow(follower: Follower): void {
    const { followed } = follower;
    if (followed === undefined) return;
    follower.followed = undefined;
    followed.followers.delete(follower);
    const isLast = followed.followers.size === 0;
    if (isLast) this.#followed.delete(followed.key);
    this.#weight.giveBack(follower.caller.userId, followed.rules.weight, isLast);
  }

  #startSweeping(): void {
    if (this.#isClosed) return;
    this.#sweepTimer ??= setTimeout(() => {
      this.#sweep()
        .catch((error: unknown) => this.#log.error({ err: error }, 'hub.live_sweep_failed'))
        .finally(() => {
          this.#sweepTimer = undefined;
          if ([...this.#followed.values()].some(({ rules }) => rules.dependsOnTime)) this.#startSweeping();
        });
    }, this.#sweepMs);
  }

  #stopSweeping(): void {
    clearTimeout(this.#sweepTimer);
    this.#sweepTimer = undefined;
  }

  /** Asks again what may have another answer by now, a little in each turn of the loop. */
  async #sweep(): Promise<void> {
    const turns = new Turns(UNHURRIED_MS);
    for (const followed of this.#followed.values()) {
      if (!followed.rules.dependsOnTime) continue;
      for (const orgId of new Set([...followed.followers].flatMap(({ held }) => [...held]))) {
        for (const device of this.view.of(orgId)) {
          if (turns.isOver) await turns.next();
          if (this.#isClosed) return;
          this.#judgeBy(followed, device);
        }
      }
    }
  }
}

const SOFTWARE = aspectsOf(['software']);

function judgeFor(
  followers: Iterable<Follower>,
  { rules, reads }: Followed,
  device: FleetDevice,
  shown = () => summaryOf(device),
): void {
  // Who asks for it waits for it, and is shown then what was found.
  if (device.software === UNREAD && (reads & SOFTWARE) !== 0) return;
  let matches: boolean | undefined;
  for (const { sees, subscription } of followers) {
    if (!sees(device)) continue;
    matches ??= rules.matches(device, Date.now());
    subscription.belongs(device.id, matches, shown);
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

import { clock, type Timer } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DevicesSubscribe, DeviceSummary } from '../../protocol/index.ts';
import type { CompiledRules, FleetDevice, FleetStore, StoredDevice } from '../ports.ts';
import { type DeviceChange, recordChange, subscriptionScope } from '../subscriptions/device-change.ts';
import { byHostname, PAGE_DEVICES, type PageReader } from '../subscriptions/pages.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { type CompiledFilter, CompiledFilters, evaluate, type FilterSubscriber } from './compiled-filters.ts';
import {
  ALL_FIELDS,
  fieldMask,
  type FieldMask,
  SCOPE_FIELDS,
  SUMMARY_FIELDS,
  summaryOf,
} from './fleet-device.ts';
import { FleetView } from './fleet-view.ts';

/** How often conditions about time are evaluated again. */
const SWEEP_MS = 15_000;

/** A change of definitions on which compiled rules depend, such as a saved filter. */
export interface RulesChange {
  /** Whether rules that were requested like this may be compiled differently now. */
  mayConcern: (caller: Caller, request: DevicesSubscribe) => boolean;
  /** Whether rules that may be concerned have to be compiled again. By default all of them are. */
  affects?: (rules: CompiledRules) => boolean;
}

interface Parts {
  store: FleetStore;
  refreshed: (stored: StoredDevice) => DeviceSummary;
  log: Logger;
  devicesMax?: number;
  sweepMs?: number;
}

/**
 * Live device lists that are selected by conditions. When a device changes, only the filters that read a changed field
 * are evaluated, each once for all its subscribers, and those see the device enter or leave.
 */
export class LiveFilters {
  readonly view: FleetView;
  readonly #store: FleetStore;
  readonly #log: Logger;
  readonly #filters = new CompiledFilters();
  readonly #subscribers = new Map<Subscription, FilterSubscriber>();
  /** Devices that were announced as gone. One that is back may be read before its return is announced. */
  readonly #gone = new Set<string>();
  readonly #sweep: TimeSweep;
  readonly #recompiling = new Set<Promise<void>>();

  constructor({ store, log, sweepMs = SWEEP_MS, ...parts }: Parts) {
    this.#store = store;
    this.#log = log;
    const onFound = (device: FleetDevice, fields: FieldMask) =>
      this.#changed(device, fields, recordChange(summaryOf(device)));
    this.view = new FleetView({ store, ...parts, onFound });
    this.#sweep = new TimeSweep({
      filters: this.#filters,
      view: this.view,
      evaluate: (filter, device) => this.#evaluate(filter, device),
      everyMs: sweepMs,
      log,
    });
  }

  get size(): number {
    return this.#subscribers.size;
  }

  /** The number of compiled filters, each counted once however many subscribers it has. */
  get conditions(): number {
    return this.#filters.size;
  }

  has(subscription: Subscription): boolean {
    return this.#subscribers.has(subscription);
  }

  /** Adds a subscription, which from now on sees devices enter and leave. Throws when its conditions cannot be used. */
  async follow(subscription: Subscription, end: (why: AppError) => void): Promise<void> {
    const { caller, filter: request } = subscription;
    const subscriber: FilterSubscriber = {
      subscription,
      caller,
      request,
      inScope: subscriptionScope(caller, request),
      end,
      filter: undefined,
      readsSoftware: false,
      held: new Set(),
      version: 0,
      isOver: false,
    };
    this.#subscribers.set(subscription, subscriber);
    try {
      const reach = await this.#store.reach(caller, request);
      await this.#compile(subscriber);
      if (subscriber.isOver) return;
      const organizations = reach.filter(({ orgId }) => !subscriber.held.has(orgId));
      this.view.hold(organizations);
      for (const { orgId } of organizations) subscriber.held.add(orgId);
    } catch (error) {
      this.leave(subscription);
      throw error;
    }
  }

  leave(subscription: Subscription): void {
    const subscriber = this.#subscribers.get(subscription);
    if (subscriber === undefined) return;
    this.#subscribers.delete(subscription);
    if (this.#subscribers.size === 0) this.#gone.clear();
    subscriber.isOver = true;
    this.#filters.detach(subscriber);
    if (subscriber.readsSoftware) this.view.releaseSoftware();
    this.view.release(subscriber.held);
    if (this.#filters.size === 0) this.#sweep.stop();
  }

  /** Reads what the subscription has to show now. Only the ids of a long list are kept between its pages. */
  pages(subscription: Subscription): PageReader {
    let ids: readonly string[] | undefined;
    let at = 0;
    return async () => {
      ids ??= await this.#matching(subscription);
      const devices: DeviceSummary[] = [];
      for (; at < ids.length && devices.length < PAGE_DEVICES; at += 1) {
        const device = this.view.get(ids[at] ?? '');
        // It may have changed since.
        if (device !== undefined && this.#belongs(subscription, device)) devices.push(summaryOf(device));
      }
      return { devices, isLast: at >= ids.length };
    };
  }

  async #matching(subscription: Subscription): Promise<string[]> {
    const subscriber = this.#subscribers.get(subscription);
    if (subscriber === undefined) return [];
    await this.#allRead(subscriber);
    // Before the conditions were compiled, nothing could report that a device which had left matches again.
    subscription.readsFromHere();
    const found: FleetDevice[] = [];
    const slice = new TimeSlice();
    for (const orgId of subscriber.held) {
      for (const device of this.view.of(orgId)) {
        if (slice.isOver) await slice.next();
        if (this.#belongs(subscription, device)) found.push(device);
      }
    }
    return found.sort(byHostname).map(({ id }) => id);
  }

  #belongs(subscription: Subscription, device: FleetDevice): boolean {
    const subscriber = this.#subscribers.get(subscription);
    const rules = subscriber?.filter?.rules;
    return subscriber?.inScope(device) === true && rules?.matches(device, clock.now()) === true;
  }

  /** Applies a live change of a device. */
  deviceChanged(change: DeviceChange): void {
    if (this.#subscribers.size === 0) return;
    const fields = this.view.deviceChanged(change);
    const device = this.view.get(change.deviceId);
    if (device !== undefined && fields !== 0) this.#evaluateAll(device, fields);
  }

  /**
   * Applies the record of a device that was read again.
   * @param change  what subscribers that already show the device are sent
   */
  refreshed(read: FleetDevice, change: DeviceChange): void {
    // Each subscriber holds an organization once: when all of them hold it, none has to be checked.
    if (this.view.holdersOf(read.orgId) < this.#subscribers.size) {
      for (const subscriber of this.#subscribers.values()) {
        if (!subscriber.held.has(read.orgId) && subscriber.inScope(read)) this.#adopt(subscriber, read.orgId);
      }
    }
    const isBack = this.#gone.delete(read.id);
    const differing = this.view.put(read);
    const fields = isBack ? ALL_FIELDS : differing;
    const device = this.view.get(read.id);
    if (device !== undefined) return this.#changed(device, fields, change);
    for (const { subscription } of this.#subscribers.values()) subscription.left(read.id);
  }

  left(deviceId: string): void {
    if (this.#subscribers.size > 0) this.#gone.add(deviceId);
    this.view.remove(deviceId);
  }

  /** Compiles the affected conditions again. A subscription whose conditions no longer compile ends with the error. */
  rulesChanged({ mayConcern, affects = () => true }: RulesChange): void {
    for (const subscriber of this.#subscribers.values()) {
      if (!mayConcern(subscriber.caller, subscriber.request)) continue;
      // A compilation that is under way may use the old definition, so it has to start again.
      subscriber.version += 1;
      const { filter } = subscriber;
      if (filter !== undefined && affects(filter.rules)) {
        const recompiling = this.#recompile(subscriber).finally(() => this.#recompiling.delete(recompiling));
        this.#recompiling.add(recompiling);
      }
    }
  }

  /** The averages of many devices were computed anew: if conditions read them, all are read again and compared. */
  averagesChanged(): void {
    if ([...this.#filters.values()].some(({ reads }) => (reads & AVERAGES) !== 0)) this.view.reload();
  }

  /** Reads and shows everything again, because changes may have been missed. */
  resync(): void {
    if (this.#subscribers.size === 0) return;
    this.view.reload();
    for (const { subscription } of this.#subscribers.values()) subscription.reread();
  }

  /** Resolves when all conditions are compiled and those about time are evaluated for this moment. */
  async settle(): Promise<void> {
    await Promise.all(this.#recompiling);
    await this.#sweep.settle();
  }

  close(): void {
    this.#sweep.close();
  }

  /** The organizations of a subscriber may become more while they are read. */
  async #allRead(subscriber: FilterSubscriber): Promise<void> {
    let count = -1;
    while (count !== subscriber.held.size) {
      count = subscriber.held.size;
      await this.view.ready(subscriber.held);
    }
  }

  /** Adds an organization that did not exist, or was not visible, when the subscriber came. */
  #adopt(subscriber: FilterSubscriber, orgId: string): void {
    try {
      this.view.hold([{ orgId, devices: 0 }]);
    } catch (error) {
      if (error instanceof AppError) return subscriber.end(error);
      throw error;
    }
    subscriber.held.add(orgId);
    this.view
      .ready([orgId])
      .then(() => {
        if (subscriber.filter === undefined) return;
        for (const device of this.view.of(orgId)) evaluate(subscriber.filter, device, [subscriber]);
      })
      .catch((error: unknown) => this.#log.warn({ err: error }, 'hub.live_organization_not_read'));
  }

  /** @param change  what subscribers that already show the device are sent */
  #changed(device: FleetDevice, fields: FieldMask, change: DeviceChange): void {
    const hasMoved = (fields & SCOPE_FIELDS) !== 0;
    if (hasMoved) {
      for (const { subscription, inScope } of this.#subscribers.values()) {
        if (!inScope(device)) subscription.left(device.id);
      }
    }
    this.#evaluateAll(device, hasMoved ? ALL_FIELDS : fields);
    if ((fields & SUMMARY_FIELDS) === 0) return;
    for (const { subscription } of this.#subscribers.values()) subscription.changed(change);
  }

  #evaluateAll(device: FleetDevice, fields: FieldMask): void {
    const summary = once(() => summaryOf(device));
    for (const filter of this.#filters.values()) {
      if ((filter.reads & fields) !== 0) this.#evaluate(filter, device, summary);
    }
  }

  /** Conditions that throw end their own subscriptions only. */
  #evaluate(filter: CompiledFilter, device: FleetDevice, summary?: () => DeviceSummary): void {
    try {
      evaluate(filter, device, filter.subscribers, summary);
    } catch (error) {
      this.#log.error({ err: error, deviceId: device.id }, 'hub.live_conditions_failed');
      const why = new AppError('unavailable', 'The conditions could not be evaluated. Subscribe again.');
      for (const subscriber of filter.subscribers) subscriber.end(why);
    }
  }

  /** Compiles the conditions of a subscriber until they are current. Returns whether they have changed. */
  async #compile(subscriber: FilterSubscriber): Promise<boolean> {
    for (;;) {
      const { version } = subscriber;
      const { key, rules } = await this.#store.rules(subscriber.caller, subscriber.request);
      if (subscriber.isOver) return false;
      if (subscriber.version !== version) continue;
      if (subscriber.filter?.key === key) return false;
      this.#filters.detach(subscriber);
      this.#filters.attach(subscriber, key, rules);
      const readsSoftware = rules.reads.has('software');
      if (readsSoftware && !subscriber.readsSoftware) this.view.holdSoftware();
      if (!readsSoftware && subscriber.readsSoftware) this.view.releaseSoftware();
      subscriber.readsSoftware = readsSoftware;
      if (rules.dependsOnTime) this.#sweep.start();
      return true;
    }
  }

  async #recompile(subscriber: FilterSubscriber): Promise<void> {
    try {
      if (await this.#compile(subscriber)) subscriber.subscription.reread();
    } catch (error) {
      if (subscriber.isOver) return;
      if (!(error instanceof AppError)) this.#log.warn({ err: error }, 'hub.live_filter_not_read');
      subscriber.end(
        error instanceof AppError
          ? error
          : new AppError('unavailable', 'The filter has changed and could not be read. Subscribe again.'),
      );
    }
  }
}

const AVERAGES = fieldMask(['averages']);

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

const SLICE_MS = 4;
/** A pause in work without a waiting caller: it leaves three quarters of the time to others. */
const BACKGROUND_PAUSE_MS = 12;

/** Divides long work into slices, between which the event loop handles other work. */
class TimeSlice {
  readonly #pauseMs: number;
  #until = clock.monotonic() + SLICE_MS;

  /** @param pauseMs  by default the work continues as soon as the event loop has handled what was waiting */
  constructor(pauseMs = 0) {
    this.#pauseMs = pauseMs;
  }

  get isOver(): boolean {
    return clock.monotonic() > this.#until;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#pauseMs === 0) setImmediate(resolve);
      else clock.setTimeout(() => resolve(), this.#pauseMs);
    });
    this.#until = clock.monotonic() + SLICE_MS;
  }
}

interface SweepParts {
  filters: Pick<CompiledFilters, 'values'>;
  view: Pick<FleetView, 'of'>;
  evaluate: (filter: CompiledFilter, device: FleetDevice) => void;
  everyMs: number;
  log: Logger;
}

/** Evaluates conditions about time again at intervals, because their result changes while the device does not. */
class TimeSweep {
  readonly #parts: SweepParts;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: SweepParts) {
    this.#parts = parts;
  }

  start(): void {
    if (this.#isClosed) return;
    const { filters, everyMs, log } = this.#parts;
    this.#timer ??= clock.setTimeout(() => {
      this.#sweep()
        .catch((error: unknown) => log.error({ err: error }, 'hub.live_sweep_failed'))
        .finally(() => {
          this.#timer = undefined;
          if ([...filters.values()].some(({ rules }) => rules.dependsOnTime)) this.start();
        });
    }, everyMs);
  }

  /** Evaluates everything now, beside the regular sweeps. */
  settle(): Promise<void> {
    return this.#sweep();
  }

  stop(): void {
    clock.clear(this.#timer);
    this.#timer = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.stop();
  }

  async #sweep(): Promise<void> {
    const { filters, view, evaluate } = this.#parts;
    const slice = new TimeSlice(BACKGROUND_PAUSE_MS);
    for (const filter of filters.values()) {
      if (!filter.rules.dependsOnTime) continue;
      for (const orgId of new Set([...filter.subscribers].flatMap(({ held }) => [...held]))) {
        for (const device of view.of(orgId)) {
          if (slice.isOver) await slice.next();
          if (this.#isClosed) return;
          evaluate(filter, device);
        }
      }
    }
  }
}

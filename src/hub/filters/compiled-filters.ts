import { clock } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import { AppError } from '../../platform/errors.ts';
import type { DevicesSubscribe, DeviceSummary } from '../../protocol/index.ts';
import type { CompiledRules, FleetDevice } from '../ports.ts';
import type { SubscriptionScope } from '../subscriptions/device-change.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { fieldMask, type FieldMask, SOFTWARE_NOT_LOADED, summaryOf } from './fleet-device.ts';

/**
 * The most that conditions in live filters may weigh at the same time: per person, and per node, where identical ones
 * count once. A typical filter weighs about ten and the largest accepted one 12,000. A weight of 100,000 takes about
 * 100 MB.
 */
const WEIGHT_OF_PERSON = 30_000;
const WEIGHT_OF_NODE = 100_000;

/** Limits the weight of all conditions that live filters of this node evaluate. */
export class FilterWeight {
  readonly #personMax: number;
  readonly #nodeMax: number;
  readonly #ofPerson = new Map<string, number>();
  #weight = 0;

  constructor({ ofPerson = WEIGHT_OF_PERSON, ofNode = WEIGHT_OF_NODE } = {}) {
    this.#personMax = ofPerson;
    this.#nodeMax = ofNode;
  }

  /**
   * Throws `rate_limited` when the limit of the person is exceeded, and `unavailable` when that of the node is.
   * @param isNew  these conditions have no subscriber yet
   */
  reserve(userId: string, weight: number, isNew: boolean): void {
    if (isNew && this.#weight + weight > this.#nodeMax) {
      throw new AppError(
        'unavailable',
        'This server already evaluates as many conditions as it can. Use fewer or simpler ones, or try again later.',
      );
    }
    const ofPerson = (this.#ofPerson.get(userId) ?? 0) + weight;
    if (ofPerson > this.#personMax) {
      throw new AppError(
        'rate_limited',
        `A person may use ${this.#personMax} conditions in live filters at once, including characters of regular expressions.`,
      );
    }
    this.#ofPerson.set(userId, ofPerson);
    if (isNew) this.#weight += weight;
  }

  /** @param isLast  these conditions have no other subscriber */
  release(userId: string, weight: number, isLast: boolean): void {
    const left = (this.#ofPerson.get(userId) ?? 0) - weight;
    if (left > 0) this.#ofPerson.set(userId, left);
    else this.#ofPerson.delete(userId);
    if (isLast) this.#weight -= weight;
  }
}

/** Conditions that live device lists use, compiled once for all subscribers that use the same ones. */
export interface CompiledFilter {
  key: string;
  rules: CompiledRules;
  reads: FieldMask;
  subscribers: Set<FilterSubscriber>;
}

/** A subscription whose devices are selected by conditions. */
export interface FilterSubscriber {
  readonly subscription: Subscription;
  readonly caller: Caller;
  readonly request: DevicesSubscribe;
  readonly inScope: SubscriptionScope;
  /** Ends the subscription with an error. */
  readonly end: (why: AppError) => void;
  filter: CompiledFilter | undefined;
  readsSoftware: boolean;
  /** The organizations that are kept in memory for it. */
  readonly held: Set<string>;
  /** Increases whenever its conditions change, so that an older compilation is not used. */
  version: number;
  isOver: boolean;
}

/** The filters that have subscribers on this node, and the limits on what they cost together. */
export class CompiledFilters {
  readonly #filters = new Map<string, CompiledFilter>();
  readonly #weight = new FilterWeight();

  get size(): number {
    return this.#filters.size;
  }

  values(): Iterable<CompiledFilter> {
    return this.#filters.values();
  }

  /** Throws `rate_limited` or `unavailable` when the conditions exceed a limit. */
  attach(subscriber: FilterSubscriber, key: string, rules: CompiledRules): void {
    this.#weight.reserve(subscriber.caller.userId, rules.weight, !this.#filters.has(key));
    const filter = this.#filters.get(key) ?? {
      key,
      rules,
      reads: fieldMask(rules.reads),
      subscribers: new Set(),
    };
    this.#filters.set(key, filter);
    filter.subscribers.add(subscriber);
    subscriber.filter = filter;
  }

  detach(subscriber: FilterSubscriber): void {
    const { filter } = subscriber;
    if (filter === undefined) return;
    subscriber.filter = undefined;
    filter.subscribers.delete(subscriber);
    const isLast = filter.subscribers.size === 0;
    if (isLast) this.#filters.delete(filter.key);
    this.#weight.release(subscriber.caller.userId, filter.rules.weight, isLast);
  }
}

const SOFTWARE = fieldMask(['software']);

/** Evaluates a filter for one device and updates the subscribers that may see it. */
export function evaluate(
  { rules, reads }: CompiledFilter,
  device: FleetDevice,
  subscribers: Iterable<FilterSubscriber>,
  summary: () => DeviceSummary = () => summaryOf(device),
): void {
  // The subscriber waits until the software has been loaded, and is shown the result then.
  if (device.software === SOFTWARE_NOT_LOADED && (reads & SOFTWARE) !== 0) return;
  let matches: boolean | undefined;
  for (const { inScope, subscription } of subscribers) {
    if (!inScope(device)) continue;
    matches ??= rules.matches(device, clock.now());
    subscription.belongs(device.id, matches, summary);
  }
}

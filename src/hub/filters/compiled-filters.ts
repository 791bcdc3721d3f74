import { clock } from '../../clock.ts';
import type { Caller } from '../../platform/context.ts';
import type { AppError } from '../../platform/errors.ts';
import type { DevicesSubscribe, DeviceSummary } from '../../protocol/index.ts';
import type { CompiledRules, FleetDevice } from '../ports/fleet-store.ts';
import type { SubscriptionScope } from '../subscriptions/subscription-scope.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { FilterWeight } from './filter-weight.ts';
import { fieldMask, type FieldMask, SOFTWARE_NOT_LOADED, summaryOf } from './fleet-device.ts';

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

import type { ConditionOf } from './alert-rule.schema.ts';
import type { DeviceFigures } from './device-figures.ts';
import { isAbove, isBeyond, type RuleMetricName } from './rule-metrics.ts';

/** A rule about a metric. */
export interface MetricRule {
  id: string;
  condition: ConditionOf<'metric'>;
}

/** The rules about one metric in one direction, those that are met first at the beginning. */
interface Group {
  metric: RuleMetricName;
  isAbove: boolean;
  rules: readonly MetricRule[];
}

/**
 * The rules about metrics that cover the devices of an organization, so arranged that figures within all thresholds cost
 * one comparison for each metric. Pure.
 */
export class RuleSet {
  readonly #groups: readonly Group[];
  readonly #byId: ReadonlyMap<string, MetricRule>;

  constructor(rules: readonly MetricRule[]) {
    this.#byId = new Map(rules.map((rule) => [rule.id, rule]));
    const groups = new Map<string, Group & { rules: MetricRule[] }>();
    for (const rule of rules) {
      const { metric } = rule.condition;
      const direction = isAbove(rule.condition);
      const key = `${metric} ${direction}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, { metric, isAbove: direction, rules: [rule] });
      else group.rules.push(rule);
    }
    for (const group of groups.values()) {
      const sign = group.isAbove ? 1 : -1;
      group.rules.sort((a, b) => sign * (a.condition.threshold - b.condition.threshold));
    }
    this.#groups = [...groups.values()];
  }

  get(ruleId: string): MetricRule | undefined {
    return this.#byId.get(ruleId);
  }

  /** The rules that figures may be beyond the threshold of. */
  beyond(figures: Pick<DeviceFigures, 'extremeOf'>): readonly MetricRule[] {
    let beyond: MetricRule[] | undefined;
    for (const { metric, isAbove: isOfHigh, rules } of this.#groups) {
      const worst = figures.extremeOf(metric, isOfHigh ? 'greatest' : 'least');
      if (worst === undefined) continue;
      for (const rule of rules) {
        if (isBeyond(rule.condition, worst)) (beyond ??= []).push(rule);
        // A rule with the same threshold may have the stricter comparison, and come first.
        else if (rule.condition.threshold !== worst) break;
      }
    }
    return beyond ?? NONE;
  }
}

const NONE: readonly MetricRule[] = [];

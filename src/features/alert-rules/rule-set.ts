import type { ConditionOf } from './alert-rule.schema.ts';
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

  /** @param rangeOf  the least and the greatest figure of a metric; undefined if there is none */
  beyond(rangeOf: (metric: RuleMetricName) => { min: number; max: number } | undefined): MetricRule[] {
    const beyond: MetricRule[] = [];
    for (const group of this.#groups) {
      const range = rangeOf(group.metric);
      if (range === undefined) continue;
      const worst = group.isAbove ? range.max : range.min;
      for (const rule of group.rules) {
        if (isBeyond(rule.condition, worst)) beyond.push(rule);
        // A rule with the same threshold may have the stricter comparison, and come first.
        else if (rule.condition.threshold !== worst) break;
      }
    }
    return beyond;
  }
}

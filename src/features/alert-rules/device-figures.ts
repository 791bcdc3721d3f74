import type { Metrics } from '../../protocol/index.ts';
import {
  type Extreme,
  extremeOf,
  type Figures,
  figuresOf,
  type RuleMetricName,
  type TimedSeries,
} from './rule-metrics.ts';

/** The figures that came from one device together. Pure. */
export interface DeviceFigures {
  readonly orgId: string;
  /** Whether the device names its volumes. */
  readonly namesVolumes: boolean;
  /** When the first and the last of them were taken, in ms. */
  readonly span: { first: number; last: number };
  /** Each with at least one point; undefined if the device says nothing about the metric. */
  of(metric: RuleMetricName): readonly Figures[] | undefined;
  /** The least or the greatest figure of a metric, or what lies beyond it where that is cheaper to find. */
  extremeOf(metric: RuleMetricName, extreme: Extreme): number | undefined;
}

/** Samples. */
export class SampledFigures implements DeviceFigures {
  readonly orgId: string;
  readonly namesVolumes = true;
  readonly #stretches: readonly TimedSeries[];
  #known: Map<RuleMetricName, readonly Figures[] | undefined> | undefined;

  /** @param stretches  the oldest first */
  constructor(orgId: string, stretches: readonly TimedSeries[]) {
    this.orgId = orgId;
    this.#stretches = stretches;
  }

  get span(): { first: number; last: number } {
    let first = Number.POSITIVE_INFINITY;
    let last = Number.NEGATIVE_INFINITY;
    for (const { beginsAt, stepSeconds, series } of this.#stretches) {
      for (const { slots } of series) {
        first = Math.min(first, beginsAt + (slots[0] ?? 0) * stepSeconds * 1000);
        last = Math.max(last, beginsAt + (slots.at(-1) ?? 0) * stepSeconds * 1000);
      }
    }
    return { first, last };
  }

  /** With further samples of the device. */
  and(stretches: readonly TimedSeries[]): SampledFigures {
    const all = [...this.#stretches, ...stretches];
    return new SampledFigures(
      this.orgId,
      all.sort((a, b) => a.beginsAt - b.beginsAt),
    );
  }

  extremeOf(metric: RuleMetricName, extreme: Extreme): number | undefined {
    return extremeOf(metric, extreme, this.#stretches);
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
    this.#known ??= new Map();
    if (!this.#known.has(metric)) this.#known.set(metric, this.#read(metric));
    return this.#known.get(metric);
  }

  #read(metric: RuleMetricName): readonly Figures[] | undefined {
    const [first, ...others] = this.#stretches.map((stretch) => figuresOf(metric, stretch));
    if (first === undefined) return undefined;
    if (others.length === 0) return first.length === 0 ? undefined : first;
    const points = new Map<string, Figures['points'][number][]>();
    for (const { label, points: some } of [first, ...others].flat()) {
      const known = points.get(label);
      if (known === undefined) points.set(label, [...some]);
      else known.push(...some);
    }
    if (points.size === 0) return undefined;
    return [...points].map(([label, all]) => ({ label, points: all.sort((a, b) => a.at - b.at) }));
  }
}

/** The figures of a heartbeat. */
export class HeardFigures implements DeviceFigures {
  readonly orgId: string;
  readonly namesVolumes = false;
  readonly span: { first: number; last: number };
  readonly #metrics: Metrics;

  constructor(orgId: string, at: number, metrics: Metrics) {
    this.orgId = orgId;
    this.span = { first: at, last: at };
    this.#metrics = metrics;
  }

  extremeOf(metric: RuleMetricName): number | undefined {
    return isHeard(metric) ? this.#metrics[metric] : undefined;
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
    if (!isHeard(metric)) return undefined;
    return [{ label: '', points: [{ at: this.span.last, value: this.#metrics[metric] }] }];
  }
}

const isHeard = (metric: RuleMetricName): metric is 'cpuPercent' | 'ramPercent' | 'diskPercent' =>
  metric === 'cpuPercent' || metric === 'ramPercent' || metric === 'diskPercent';

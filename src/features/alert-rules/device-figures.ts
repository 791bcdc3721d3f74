import type { Metrics } from '../../protocol/index.ts';
import { type Figures, figuresOf, type RuleMetricName, type TimedSeries } from './rule-metrics.ts';

/** The figures that came from one device together. Pure. */
export interface DeviceFigures {
  readonly orgId: string;
  /** Whether the device names its volumes. */
  readonly namesVolumes: boolean;
  /** When the first and the last of them were taken, in ms. */
  readonly span: { first: number; last: number };
  /** Each with at least one point; undefined if the device says nothing about the metric. */
  of(metric: RuleMetricName): readonly Figures[] | undefined;
  /** The least and the greatest figure of a metric, a little wider where that is cheaper. */
  rangeOf(metric: RuleMetricName): Range | undefined;
}

interface Range {
  min: number;
  max: number;
}

/** More than storing a figure changes it, as a part of it. */
const ROUNDING = 0.01;

/** Samples. */
export class SampledFigures implements DeviceFigures {
  readonly orgId: string;
  readonly namesVolumes = true;
  readonly span: { first: number; last: number };
  readonly #stretches: readonly TimedSeries[];

  /** @param stretches  the oldest first */
  constructor(orgId: string, stretches: readonly TimedSeries[]) {
    this.orgId = orgId;
    this.#stretches = stretches;
    let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const { beginsAt, stepSeconds, series } of stretches) {
      for (const { slots } of series) {
        first = Math.min(first, beginsAt + (slots[0] ?? 0) * stepSeconds * 1000);
        last = Math.max(last, beginsAt + (slots.at(-1) ?? 0) * stepSeconds * 1000);
      }
    }
    this.span = { first, last };
  }

  /** With further samples of the device. */
  and(stretches: readonly TimedSeries[]): SampledFigures {
    const all = [...this.#stretches, ...stretches];
    return new SampledFigures(
      this.orgId,
      all.sort((a, b) => a.beginsAt - b.beginsAt),
    );
  }

  /** Most devices are within all thresholds, so this makes no lists. */
  rangeOf(metric: RuleMetricName): Range | undefined {
    if (metric === 'diskPercent' || metric === 'diskFreeBytes') return rangeOfFigures(this.of(metric));
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const { series } of this.#stretches) {
      for (const one of series) {
        if (one.metric !== metric) continue;
        for (const value of one.avg) {
          if (value < min) min = value;
          if (value > max) max = value;
        }
      }
    }
    const slack = ROUNDING + max * ROUNDING;
    return min > max ? undefined : { min: min - slack, max: max + slack };
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
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

function rangeOfFigures(figures: readonly Figures[] | undefined): Range | undefined {
  if (figures === undefined) return undefined;
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { points } of figures) {
    for (const { value } of points) {
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  return { min, max };
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

  rangeOf(metric: RuleMetricName): Range | undefined {
    return rangeOfFigures(this.of(metric));
  }

  of(metric: RuleMetricName): readonly Figures[] | undefined {
    if (metric !== 'cpuPercent' && metric !== 'ramPercent' && metric !== 'diskPercent') return undefined;
    return [{ label: '', points: [{ at: this.span.last, value: this.#metrics[metric] }] }];
  }
}

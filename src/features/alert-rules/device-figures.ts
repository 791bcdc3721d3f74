import type { Metrics } from '../../protocol/index.ts';
import { type Figures, figuresOf, type RuleMetricName, type TimedSeries } from './rule-metrics.ts';

/** The figures that came from one device together. Pure. */
export abstract class DeviceFigures {
  readonly orgId: string;
  /** Whether the device names its volumes. */
  abstract readonly namesVolumes: boolean;
  readonly #known = new Map<RuleMetricName, readonly Figures[] | undefined>();

  constructor(orgId: string) {
    this.orgId = orgId;
  }

  /** Each with at least one point; undefined if the device says nothing about the metric. */
  of(metric: RuleMetricName): readonly Figures[] | undefined {
    if (!this.#known.has(metric)) this.#known.set(metric, this.read(metric));
    return this.#known.get(metric);
  }

  rangeOf(metric: RuleMetricName): { min: number; max: number } | undefined {
    const figures = this.of(metric);
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

  /** When the first and the last of them were taken, in ms. */
  abstract readonly span: { first: number; last: number };

  protected abstract read(metric: RuleMetricName): readonly Figures[] | undefined;
}

/** Samples. */
export class SampledFigures extends DeviceFigures {
  readonly namesVolumes = true;
  readonly span: { first: number; last: number };
  readonly #stretches: readonly TimedSeries[];

  /** @param stretches  the oldest first */
  constructor(orgId: string, stretches: readonly TimedSeries[]) {
    super(orgId);
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

  protected read(metric: RuleMetricName): readonly Figures[] | undefined {
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
export class HeardFigures extends DeviceFigures {
  readonly namesVolumes = false;
  readonly span: { first: number; last: number };
  readonly #metrics: Metrics;

  constructor(orgId: string, at: number, metrics: Metrics) {
    super(orgId);
    this.span = { first: at, last: at };
    this.#metrics = metrics;
  }

  protected read(metric: RuleMetricName): readonly Figures[] | undefined {
    if (metric !== 'cpuPercent' && metric !== 'ramPercent' && metric !== 'diskPercent') return undefined;
    return [{ label: '', points: [{ at: this.span.last, value: this.#metrics[metric] }] }];
  }
}

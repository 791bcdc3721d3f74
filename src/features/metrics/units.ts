import { kindOf, type MetricName, type Series } from './metric.ts';

/** Figures as whole numbers of the unit in which their metric is stored. */

/** Far above every real figure, and small enough that differences are exact. */
export const UNITS_MAX = 2 ** 47;

/** A figure as the history has it after it was stored and read. */
export function asStored(metric: MetricName, value: number): number {
  const { unit } = kindOf(metric);
  return inFigure(Math.min(Math.round(value / unit), UNITS_MAX), unit);
}

/** 0.1 times 3 is not 0.3. */
const inFigure = (units: number, unit: number) =>
  unit < 1 ? Math.round(units) / Math.round(1 / unit) : units * unit;

export function inUnits(
  { metric, slots }: Pick<Series, 'metric' | 'slots'>,
  values: readonly number[],
  stepSeconds: number,
): number[] {
  const { unit, isClock } = kindOf(metric);
  return values.map((value, at) => {
    const units = Math.min(Math.round(value / unit), UNITS_MAX);
    return isClock === true ? units - (slots[at] ?? 0) * stepSeconds : units;
  });
}

export function inFigures(
  metric: MetricName,
  values: readonly number[],
  slots: readonly number[],
  stepSeconds: number,
): number[] {
  const { unit, isClock } = kindOf(metric);
  return values.map((value, at) => {
    const units = isClock === true ? value + (slots[at] ?? 0) * stepSeconds : value;
    return inFigure(units, unit);
  });
}

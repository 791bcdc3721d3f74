/** One measured value with its target. A ratio compares two measurements of the same run. */
export interface Result {
  what: string;
  value: number;
  unit: 'ratio' | 'ms' | 'KiB' | 'percent' | 'devices' | 'queries';
  better: 'higher' | 'lower';
  target: number;
  stretchTarget?: number;
  /** The measurements behind the value, each named with its unit, such as `plainSocketIoPerSecond`. */
  measured: Readonly<Record<string, number>>;
}

/** A row of the table in `docs/performance.md`. */
export interface Figure {
  number: number;
  title: string;
  measure(): Promise<Result[]>;
}

export function verdict({ value, better, target, stretchTarget }: Result): 'stretch' | 'reached' | 'missed' {
  const isWithin = (bound: number) => (better === 'higher' ? value >= bound : value <= bound);
  if (stretchTarget !== undefined && isWithin(stretchTarget)) return 'stretch';
  return isWithin(target) ? 'reached' : 'missed';
}

/** One measured value beside what it has to reach; ratios are of two measurements of the same run. */
export interface Result {
  what: string;
  value: number;
  unit: 'ratio' | 'ms' | 'KiB' | 'percent' | 'devices' | 'asks';
  better: 'higher' | 'lower';
  reach: number;
  stretch?: number;
  /** What the value was made of, each named with its unit, such as `plainSocketIoPerSecond`. */
  measured: Readonly<Record<string, number>>;
}

/** A row of the table in `docs/performance.md`. */
export interface Figure {
  number: number;
  title: string;
  measure(): Promise<Result[]>;
}

export function verdict({ value, better, reach, stretch }: Result): 'stretch' | 'reached' | 'missed' {
  const isWithin = (bound: number) => (better === 'higher' ? value >= bound : value <= bound);
  if (stretch !== undefined && isWithin(stretch)) return 'stretch';
  return isWithin(reach) ? 'reached' : 'missed';
}

/** The value below which the given share of all values lies; 0 if there are none. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

export function sortedCopy(values: readonly number[]): Float64Array {
  return Float64Array.from(values).sort();
}

export function median(values: readonly number[]): number {
  return percentile(sortedCopy(values), 0.5);
}

export const rounded = (value: number, digits = 2): number => Number(value.toFixed(digits));

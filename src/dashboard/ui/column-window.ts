/** The columns from the place `from` up to the place `to`, without it. */
export interface ColumnWindow {
  from: number;
  to: number;
}

/**
 * The columns of which a part lies between two distances from the left edge of the first column.
 * @param widths  of all columns, in pixels, as they are drawn
 */
export function columnsBetween(widths: readonly number[], left: number, right: number): ColumnWindow {
  let from = 0;
  let to = 0;
  let edge = 0;
  for (const [place, width] of widths.entries()) {
    if (edge < right) to = place + 1;
    edge += width;
    if (edge <= left) from = place + 1;
  }
  return { from: Math.min(from, to), to };
}

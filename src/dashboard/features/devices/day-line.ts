/** The line of the chart of a day. Pure. */

/** In pixels. */
export const DAY_WIDTH = 96;
export const DAY_HEIGHT = 20;

/** A line from 0 % to 100 %, broken where an hour has no figures. */
export function lineOf(averages: readonly (number | null)[]): string {
  const step = DAY_WIDTH / Math.max(1, averages.length);
  const parts: string[] = [];
  let isDrawing = false;
  for (const [hour, value] of averages.entries()) {
    if (value === null) {
      isDrawing = false;
      continue;
    }
    const y = (DAY_HEIGHT - 1 - (Math.min(100, Math.max(0, value)) / 100) * (DAY_HEIGHT - 2)).toFixed(1);
    // An hour alone is a line as well.
    parts.push(
      `${isDrawing ? 'L' : 'M'}${(hour * step).toFixed(1)} ${y}`,
      `L${((hour + 1) * step).toFixed(1)} ${y}`,
    );
    isDrawing = true;
  }
  return parts.join('');
}

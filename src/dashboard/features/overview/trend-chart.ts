/** The chart of a figure of each day. Pure. */

/** In units of the picture, which is stretched to the width that there is. */
export const CHART_WIDTH = 120;
export const CHART_HEIGHT = 32;

/** Each day of a range (UTC, such as 2026-11-29), the last one included, with its figure; null if it was not counted. */
export function daysOf<Figure extends string>(
  counted: readonly ({ day: string } & Record<Figure, number | null>)[],
  { figure, last, days }: { figure: Figure; last: string; days: number },
): { day: string; value: number | null }[] {
  const byDay = new Map(counted.map((one) => [one.day, one[figure]]));
  return Array.from({ length: days }, (_value, index) => {
    const at = new Date(last);
    at.setUTCDate(at.getUTCDate() - (days - 1 - index));
    const day = at.toISOString().slice(0, 10);
    return { day, value: byDay.get(day) ?? null };
  });
}

export interface Bar {
  day: string;
  value: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A bar for each day that was counted, from zero. A day with nothing has none. */
export function barsOf(days: readonly { day: string; value: number | null }[]): Bar[] {
  const most = Math.max(1, ...days.map(({ value }) => value ?? 0));
  const step = CHART_WIDTH / Math.max(1, days.length);
  return days.flatMap(({ day, value }, index) => {
    if (value === null || value <= 0) return [];
    // One among thousands is still seen.
    const height = Math.max(1.5, (value / most) * CHART_HEIGHT);
    return [
      { day, value, x: index * step + step * 0.1, width: step * 0.8, y: CHART_HEIGHT - height, height },
    ];
  });
}

const HOUR = 60;
const DAY = 24 * HOUR;

/** "1 device", "12 devices". */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** "15 minutes", "90 minutes", "1 hour", "2 hours 15 minutes", "2 days". */
export function minutesText(minutes: number): string {
  if (minutes < 2 * HOUR && minutes !== HOUR) return counted(minutes, 'minute');
  const parts: readonly [count: number, noun: string][] = [
    [Math.floor(minutes / DAY), 'day'],
    [Math.floor((minutes % DAY) / HOUR), 'hour'],
    [minutes % HOUR, 'minute'],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, noun]) => counted(count, noun))
    .join(' ');
}

import { type MaintenanceWindow, Weekday } from '../../partners/index.ts';

/** Maintenance windows, in UTC. One opens on each of its days, and closes less than 24 hours later. */

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const WEEK_MS = 7 * DAY_MS;
const A_MONDAY = Date.UTC(1970, 0, 5);

/** The moment at which a window opens is within it, the moment at which it closes is not. */
export function isOpen(window: MaintenanceWindow, now: Date): boolean {
  const length = lengthOf(window);
  return timesSinceOpening(window, now).some((time) => time < length);
}

/** The first moment after `now` at which the window opens. */
export function nextOpening(window: MaintenanceWindow, now: Date): Date {
  return new Date(now.getTime() + WEEK_MS - Math.max(...timesSinceOpening(window, now)));
}

/** A moment after `now` until which it surely stays open, or closed. */
export function nextChange(window: MaintenanceWindow, now: Date): Date {
  const length = lengthOf(window);
  const closings = timesSinceOpening(window, now)
    .filter((time) => time < length)
    .map((time) => now.getTime() + length - time);
  return new Date(Math.min(nextOpening(window, now).getTime(), ...closings));
}

/** For each of its days, how long ago the window last opened on that day; 0 where it opens now. */
function timesSinceOpening({ days, start }: MaintenanceWindow, now: Date): number[] {
  return days.map((day) => {
    const opening = A_MONDAY + Weekday.options.indexOf(day) * DAY_MS + timeOfDay(start);
    return modulo(now.getTime() - opening, WEEK_MS);
  });
}

const lengthOf = ({ start, end }: MaintenanceWindow) => modulo(timeOfDay(end) - timeOfDay(start), DAY_MS);

/** Milliseconds from midnight until a time such as 22:30. */
function timeOfDay(clock: string): number {
  const [hours, minutes] = clock.split(':').map(Number);
  if (hours === undefined || minutes === undefined) throw new Error(`${clock} is not a time of day`);
  return (hours * 60 + minutes) * MINUTE_MS;
}

/** Never negative, unlike the operator's remainder. */
const modulo = (value: number, by: number) => ((value % by) + by) % by;

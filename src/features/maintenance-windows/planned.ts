import type { MaintenanceWindow } from './maintenance-window.model.ts';
import { type Occurrence, occurrencesFrom } from './occurrences.ts';

/** The occurrences of a window as they are after a person has ended one of them early. */

type Window = Pick<MaintenanceWindow, 'timezone' | 'start' | 'durationMinutes' | 'repeat' | 'endedEarlyAt'>;

/** Those that end after an instant, in their order. */
export function* plannedFrom(window: Window, from: Date): Generator<Occurrence> {
  const { endedEarlyAt } = window;
  for (const occurrence of occurrencesFrom(window, from)) {
    const { startsAt, endsAt } = occurrence;
    const isEnded = endedEarlyAt !== null && startsAt <= endedEarlyAt && endedEarlyAt < endsAt;
    if (!isEnded) yield occurrence;
    else if (endedEarlyAt > from) yield { startsAt, endsAt: endedEarlyAt };
  }
}

/** The occurrence in progress; the one that ends last if there are two. */
export function currentOf(window: Window, now: Date): Occurrence | undefined {
  let current: Occurrence | undefined;
  for (const occurrence of plannedFrom(window, now)) {
    if (occurrence.startsAt > now) break;
    current = occurrence;
  }
  return current;
}

/** The first occurrence that has not begun. */
export function nextOf(window: Window, now: Date): Occurrence | undefined {
  for (const occurrence of plannedFrom(window, now)) {
    if (occurrence.startsAt > now) return occurrence;
  }
  return undefined;
}

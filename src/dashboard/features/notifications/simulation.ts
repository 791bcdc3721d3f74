import type { NotificationSimulation } from '../../api/routes.ts';
import { minutesText } from '../alert-words/index.ts';

/** What the simulation answers, as it is shown. Pure. */

type Told = NotificationSimulation['timeline'][number];

/** Those who are told at the same time. */
export interface Telling {
  at: string;
  reason: Told['reason'];
  /** "At once", "After 15 minutes". */
  after: string;
  told: Told[];
}

const MINUTE_MS = 60_000;
const SECOND_MS = 1000;

/** @param begin  when the alert is raised */
export function tellingsOf(timeline: readonly Told[], begin: Date): Telling[] {
  const tellings = new Map<string, Telling>();
  for (const one of timeline) {
    const { at, reason } = one;
    const telling = tellings.get(at) ?? { at, reason, after: afterText(at, begin), told: [] };
    telling.told.push(one);
    tellings.set(at, telling);
  }
  return [...tellings.values()];
}

function afterText(at: string, begin: Date): string {
  const ms = Date.parse(at) - begin.getTime();
  const minutes = Math.round(ms / MINUTE_MS);
  if (ms < SECOND_MS) return 'At once';
  if (ms < MINUTE_MS) return `After ${Math.round(ms / SECOND_MS)} seconds`;
  return `After ${minutesText(minutes)}`;
}

/**
 * The next time that the clock of this computer shows a time on a day of the week.
 * @param day  0 for Sunday
 * @param time  as in 03:00
 */
export function nextMoment(day: number, time: string, now: Date): Date {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  const moment = new Date(now);
  moment.setHours(hours, minutes, 0, 0);
  moment.setDate(moment.getDate() + ((day - moment.getDay() + 7) % 7));
  if (moment <= now) moment.setDate(moment.getDate() + 7);
  return moment;
}

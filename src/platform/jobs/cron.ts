import { Cron } from 'croner';

/** When recurring work is due: five cron fields (minute, hour, day, month, weekday), read in a time zone. */
export interface Schedule {
  cron: string;
  /** IANA name, such as Europe/Berlin. */
  timeZone: string;
}

/**
 * The first time after `after` at which the schedule is due. Where clocks are set forward over a due time, it is due at
 * the moment of the change; where they are set back, a due time that comes twice counts once, the first time.
 */
export function nextRun({ cron, timeZone }: Schedule, after: Date): Date {
  const next = new Cron(cron, { timezone: timeZone, mode: '5-part', paused: true }).nextRun(after);
  if (next === null) throw new Error(`The schedule "${cron}" in ${timeZone} is never due.`);
  return next;
}

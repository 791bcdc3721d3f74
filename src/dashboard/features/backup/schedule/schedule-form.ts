import type { BackupSchedule } from '../../../api/index.ts';
import { formatWord } from '../../../ui/index.ts';

/** The fields of a schedule, and how they become what the API takes. */
export type Frequency = BackupSchedule['frequency'] | 'none';

export interface ScheduleForm {
  frequency: Frequency;
  time: string;
  dayOfWeek: string;
  dayOfMonth: string;
  windowStart: string;
  windowEnd: string;
}

/** Those of a schedule; `null`: there is none; `undefined`: those of something new. */
export const scheduleFormOf = (schedule: BackupSchedule | null | undefined): ScheduleForm => ({
  frequency: schedule === undefined ? 'daily' : (schedule?.frequency ?? 'none'),
  time: schedule?.time ?? (schedule === undefined ? '22:00' : ''),
  dayOfWeek: String(schedule?.dayOfWeek ?? 0),
  dayOfMonth: String(schedule?.dayOfMonth ?? 1),
  windowStart: schedule?.windowStart ?? '',
  windowEnd: schedule?.windowEnd ?? '',
});

/** Leaves out what is empty. */
export const given = <T extends Record<string, string>>(texts: T): Partial<T> => {
  const kept: Partial<T> = { ...texts };
  for (const name in kept) if (kept[name] === '') delete kept[name];
  return kept;
};

export function scheduleOf(form: ScheduleForm): BackupSchedule | null {
  const { frequency, time, windowStart, windowEnd } = form;
  if (frequency === 'none') return null;
  return {
    frequency,
    ...given({ time, windowStart, windowEnd }),
    ...(frequency === 'weekly' ? { dayOfWeek: Number(form.dayOfWeek) } : {}),
    ...(frequency === 'monthly'
      ? { dayOfMonth: form.dayOfMonth === 'last' ? ('last' as const) : Number(form.dayOfMonth) }
      : {}),
  };
}

/** "Daily at 22:00", "By hand". */
export function scheduleText(schedule: BackupSchedule | null): string {
  if (schedule === null) return 'By hand';
  const time = schedule.time ?? schedule.windowStart;
  return `${formatWord(schedule.frequency)}${time === undefined ? '' : ` at ${time}`}`;
}

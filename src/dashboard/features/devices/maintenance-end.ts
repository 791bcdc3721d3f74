const HOUR_MS = 3_600_000;

/** How long maintenance can last, as people choose it. */
export const MAINTENANCE_ENDS = {
  hour: 'For an hour',
  hours: 'For 4 hours',
  day: 'For a day',
  week: 'For a week',
  time: 'Until a time',
  open: 'Until it is ended',
} as const;
export type MaintenanceEnd = keyof typeof MAINTENANCE_ENDS;
export const isMaintenanceEnd = (value: string | null): value is MaintenanceEnd =>
  value !== null && Object.hasOwn(MAINTENANCE_ENDS, value);

const LASTS: Partial<Record<MaintenanceEnd, number>> = {
  hour: HOUR_MS,
  hours: 4 * HOUR_MS,
  day: 24 * HOUR_MS,
  week: 7 * 24 * HOUR_MS,
};

/** When it ends: `null` if it has no end, `undefined` if the chosen time is none that lies ahead. */
export function maintenanceEndsAt(end: MaintenanceEnd, time: string, now: number): string | null | undefined {
  if (end === 'open') return null;
  const lasts = LASTS[end];
  const at = lasts === undefined ? Date.parse(time) : now + lasts;
  return Number.isNaN(at) || at <= now ? undefined : new Date(at).toISOString();
}

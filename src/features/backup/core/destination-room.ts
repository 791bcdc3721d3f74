/** How soon a place in which backups are stored is full. */

export interface DestinationRoom {
  /** What backups may still take. Negative where a quota was lowered below what is stored. */
  freeBytes: number;
  totalBytes: number;
  /** What was added a day, on average of up to `GROWTH_DAYS`; `null`: not known yet. */
  bytesPerDay: number | null;
}

export const GROWTH_DAYS = 14;
/** In fewer days, the first backups of devices look like a growth that goes on. */
export const GROWTH_DAYS_MIN = 3;

/** An alert that stands ends at the second values, so that it does not come and go with each backup. */
const SOON = { days: 14, freeShare: 0.05 };
const SOON_STILL = { days: 21, freeShare: 0.08 };

/**
 * Whether a place is full soon:
 *
 *     days left = free bytes / bytes added a day
 *     full soon = days left ≤ 14, or free bytes ≤ 5 % of all
 *
 * Where it was found to be so before, it lasts while the days left are at most 21, or at most 8 % are free.
 */
export function isFullSoon(room: DestinationRoom, wasBefore: boolean): boolean {
  const { days, freeShare } = wasBefore ? SOON_STILL : SOON;
  const left = daysLeft(room);
  return room.freeBytes <= room.totalBytes * freeShare || (left !== null && left <= days);
}

/** `null` where what is added is not known, or nothing is. */
export function daysLeft({ freeBytes, bytesPerDay }: DestinationRoom): number | null {
  if (freeBytes <= 0) return 0;
  return bytesPerDay === null || bytesPerDay <= 0 ? null : freeBytes / bytesPerDay;
}

import type { MetricsNow } from '../../api/routes.ts';

/** A figure of a device, or of one of its volumes. */
export type Figure = MetricsNow['data'][number];

/** The least confidence of a forecast that is called likely: the volume has grown nearly all the time. */
const LIKELY = 0.9;
const WEEKS_FROM_DAYS = 21;
const MONTHS_FROM_DAYS = 90;

/** When a volume will be full, in no more detail than is known: "Likely full in about 12 days". */
export function forecastText(forecast: Figure['forecast']): string {
  if (forecast == null) return 'Does not grow clearly';
  const { fullInDays, confidence } = forecast;
  const certainty = confidence >= LIKELY ? 'Likely full' : 'Perhaps full';
  return fullInDays < 1 ? `${certainty} within a day` : `${certainty} in about ${about(fullInDays)}`;
}

const about = (days: number): string => {
  if (days < WEEKS_FROM_DAYS) return counted(Math.round(days), 'day');
  if (days < MONTHS_FROM_DAYS) return counted(Math.round(days / 7), 'week');
  return counted(Math.round(days / 30.4), 'month');
};

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** The times that entries are read from: a preset that moves with the clock, or fixed ends. */
export interface TimeRange {
  range?: string | undefined;
  /** ISO 8601. */
  from?: string | undefined;
  to?: string | undefined;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const TIME_PRESETS = [
  { value: '15m', label: 'Last 15 minutes', ms: 15 * MINUTE },
  { value: '1h', label: 'Last hour', ms: HOUR },
  { value: '6h', label: 'Last 6 hours', ms: 6 * HOUR },
  { value: '24h', label: 'Last 24 hours', ms: DAY },
  { value: '7d', label: 'Last 7 days', ms: 7 * DAY },
  { value: '30d', label: 'Last 30 days', ms: 30 * DAY },
] as const;

/** The ends of a range, in ISO 8601; an absent end is open. Times that cannot be read are left out. */
export function endsOf(
  { range, from, to }: TimeRange,
  now: number,
): { startTime?: string; endTime?: string } {
  const preset = TIME_PRESETS.find(({ value }) => value === range);
  if (preset !== undefined) return { startTime: new Date(now - preset.ms).toISOString() };
  const ends: { startTime?: string; endTime?: string } = {};
  if (isTime(from)) ends.startTime = new Date(from).toISOString();
  if (isTime(to)) ends.endTime = new Date(to).toISOString();
  return ends;
}

const isTime = (text: string | undefined): text is string =>
  text !== undefined && !Number.isNaN(Date.parse(text));

/** The next shorter preset, to narrow a query that took too long. */
export function shorterPreset(range: TimeRange): (typeof TIME_PRESETS)[number] | undefined {
  const place = TIME_PRESETS.findIndex(({ value }) => value === range.range);
  if (place > 0) return TIME_PRESETS[place - 1];
  return place === 0 ? undefined : TIME_PRESETS.find(({ value }) => value === '24h');
}

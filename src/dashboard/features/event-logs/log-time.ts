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

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat('en', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  });
  formats.set(zone, made);
  return made;
}

export const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Whether this browser knows the zone. */
export function isZone(zone: string): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** "2026-01-31 08:00:00.123", in a form that sorts and that no country reads wrongly. */
export function timeIn(zone: string, at: number): string {
  if (at === 0) return 'Unknown time';
  const part = partsOf(zone, at);
  return `${part['year']}-${part['month']}-${part['day']} ${part['hour']}:${part['minute']}:${part['second']}.${part['fractionalSecond']}`;
}

/** "01-31 08:00:00": short enough for the ends of a histogram. */
export function shortTimeIn(zone: string, at: number): string {
  return timeIn(zone, at).slice(5, 19);
}

function partsOf(zone: string, at: number): Partial<Record<string, string>> {
  const parts = formatOf(isZone(zone) ? zone : 'UTC').formatToParts(at);
  return Object.fromEntries(parts.map(({ type, value }) => [type, value]));
}

/** The instant of a field for date and time, which has no zone of its own; `undefined` if it is empty or no time. */
export function instantIn(zone: string, field: string): number | undefined {
  const asUtc = Date.parse(`${field}Z`);
  if (Number.isNaN(asUtc)) return undefined;
  // The offset differs at most once between the guess and the true instant.
  const guess = asUtc - offsetOf(zone, asUtc);
  return asUtc - offsetOf(zone, guess);
}

/** How far the clocks of the zone are ahead of UTC, in milliseconds. */
function offsetOf(zone: string, at: number): number {
  return Date.parse(`${timeIn(zone, at).replace(' ', 'T')}Z`) - at;
}

/** The value of a field for date and time. */
export const fieldTimeIn = (zone: string, at: number): string =>
  timeIn(zone, at).slice(0, 19).replace(' ', 'T');

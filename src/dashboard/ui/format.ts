import { type OsType, hasDoneItsWork, isFinal, scriptFailure, type Ending } from '../../protocol/index.ts';

/** Numbers, sizes and times as people read them. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function formatBytes(bytes: number): string {
  if (bytes < 1) return '0 B';
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length - 1);
  const value = bytes / 1024 ** power;
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 && power > 0 ? 1 : 0 })} ${UNITS[power]}`;
}

export const formatCount = (count: number): string => count.toLocaleString();

/** "Only the first 64 of 70 are listed." `undefined` if the list is whole. */
export function partSentence(
  listed: number,
  {
    total,
    isCut = false,
    which = 'first',
  }: { total?: number | undefined; isCut?: boolean | undefined; which?: 'first' | 'newest' },
): string | undefined {
  const isPart = isCut || (total !== undefined && total > listed);
  if (!isPart) return undefined;
  return `Only the ${which} ${formatCount(listed)}${total === undefined ? '' : ` of ${formatCount(total)}`} are listed.`;
}

export const formatPercent = (percent: number): string => `${Math.round(percent)} %`;

const STEPS: readonly [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [60, 'second'],
  [3_600, 'minute'],
  // From two of a unit on, so that 41 hours are neither a day nor "yesterday".
  [86_400 * 2, 'hour'],
  [86_400 * 60, 'day'],
  [86_400 * 365 * 2, 'month'],
  [Number.POSITIVE_INFINITY, 'year'],
];
const SECONDS_OF: Partial<Record<Intl.RelativeTimeFormatUnit, number>> = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: 86_400,
  month: 86_400 * 30,
  year: 86_400 * 365,
};
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'always', style: 'short' });

/** "3 min. ago", "in 2 hr." */
export function formatRelative(at: Date, now: number): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = STEPS.find(([limit]) => Math.abs(seconds) < limit)?.[1] ?? 'year';
  if (unit === 'second' && Math.abs(seconds) < 10) return 'now';
  const units = seconds / (SECONDS_OF[unit] ?? 1);
  // A key of one week ends "in 7 days" also when some seconds of them have passed.
  return relative.format(units > 0 ? Math.round(units) : Math.trunc(units), unit);
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
export const formatTime = (at: Date): string => absolute.format(at);

const clock = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const clockAndDay = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: 'numeric',
  minute: '2-digit',
});
/** "23:00", with the day if it is not today. */
export const formatUntil = (at: Date, now: Date): string =>
  (at.toDateString() === now.toDateString() ? clock : clockAndDay).format(at);

/** The begin and the end of a day of this computer's calendar, for filters by day; a text that is no day has neither. */
export function endsOfDay(day: string | undefined): { begin?: string; end?: string } {
  const begin = new Date(`${day ?? ''}T00:00`);
  if (Number.isNaN(begin.getTime())) return {};
  const next = new Date(begin);
  next.setDate(next.getDate() + 1);
  return { begin: begin.toISOString(), end: new Date(next.getTime() - 1).toISOString() };
}

/** "1 h 5 min", "5 min", "12 s". */
export function formatDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 1) return `${seconds} s`;
  if (hours < 1) return twoUnits(minutes, 'min', seconds % 60, 's');
  if (hours < 48) return twoUnits(hours, 'h', minutes % 60, 'min');
  return twoUnits(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** How long something took; `undefined` until it has ended. */
export const formatSpan = (begin: string | null, end: string | null): string | undefined =>
  begin === null || end === null ? undefined : formatDuration(Date.parse(end) - Date.parse(begin));

const twoUnits = (large: number, unit: string, rest: number, smallUnit: string) =>
  rest === 0 ? `${large} ${unit}` : `${large} ${unit} ${rest} ${smallUnit}`;

/** "1 snapshot", "2 snapshots". */
export const formatCounted = (count: number, noun: string): string =>
  `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;

/** "crash_loop" → "Crash loop". */
export function formatWord(code: string): string {
  const words = code.replaceAll(/[_.-]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The path of a field as people read it: "settings.contact.email" → "Settings contact email", "orgId" → "Org". */
export const formatField = (path: string): string =>
  formatWord(
    path
      .replace(/^(query|params)\./, '')
      .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
      .toLowerCase(),
  ).replace(/ ids?$/, '');

export const SYSTEM_NAMES: Readonly<Record<OsType, string>> = {
  windows: 'Windows',
  macos: 'macOS',
  linux: 'Linux',
};

/** How a job stands, for people. */
export interface JobOutcome {
  /** The state, or the exit code of a script that has failed. */
  text: string;
  group: 'good' | 'bad' | 'open';
}

export const jobOutcome = (ending: Ending): JobOutcome => ({
  text: scriptFailure(ending) ?? formatWord(ending.state),
  group: !isFinal(ending.state) ? 'open' : hasDoneItsWork(ending) ? 'good' : 'bad',
});

/** "3 succeeded, 2 exit code 1, 1 refused": how many there are of each outcome, the most first. */
export function tallyText(outcomes: readonly Pick<JobOutcome, 'text'>[]): string {
  const counts = new Map<string, number>();
  for (const { text } of outcomes) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([text, count]) => `${formatCount(count)} ${text.toLowerCase()}`)
    .join(', ');
}

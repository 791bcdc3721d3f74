import { DAY_MS } from '../../../../clock.ts';

/** Parses the dates that programs write into their logs. */

export interface DateHints {
  /** When the file was last written. A date without a year is the latest such date before it. */
  reference: number;
  /** Whether dates such as 03/04/2026 begin with the day; `undefined` if the file does not show it. */
  dayFirst?: boolean | undefined;
}

export interface FoundDate {
  at: number;
  /** The position behind the date and its zone. */
  end: number;
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

const TIME = String.raw`(?<hour>\d{1,2}):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,:](?<fraction>\d{1,9}))?)?(?: ?(?<half>[AaPp])\.?[Mm]\.?(?![A-Za-z]))?`;
const MONTH = String.raw`(?<monthName>[A-Za-z]{3,9})\.?`;
const ZONE = String.raw`(?<zone>(?: ?(?:Z|UTC|GMT|[CEW]ES?T|MSK|JST|[EMP][SD]T|[+-]\d\d:?\d\d)|[+-]\d\d)(?![A-Za-z0-9]))?`;
const pattern = (source: string) => new RegExp(source + ZONE, 'y');

/** The patterns of dates that begin with a digit, the most usual first. */
const AFTER_DIGIT = [
  // 2026-11-27T04:00:00.123Z, 2026/11/27  4:00:00, 2026.11.27 04:00:00,123
  pattern(String.raw`(?<year>\d{4})(?<sign>[-/.])(?<month>\d{1,2})\k<sign>(?<day>\d{1,2})[T _]{1,3}${TIME}`),
  // 27-Nov-2026 04:00:00.123, 27/Nov/2026:04:00:00 +0100, 27 Nov 2026 04:00:00
  pattern(String.raw`(?<day>\d{1,2})[-/. ]${MONTH}[-/. ](?<year>\d{4}|\d\d),?[ :T]{1,3}${TIME}`),
  // 27.11.2026 04:00:00, 11/27/2026 4:00:00 PM, 27-11-2026 04:00:00
  pattern(
    String.raw`(?<first>\d{1,2})(?<sign>[-/.])(?<other>\d{1,2})\k<sign>(?<year>\d{4}|\d\d),?[ T_]{1,3}${TIME}`,
  ),
  // 20261127T040000Z, 20261127 04:00:00, 20261127-040000
  pattern(
    String.raw`(?<year>\d{4})(?<month>\d\d)(?<day>\d\d)[T _-](?<hour>\d\d):?(?<minute>\d\d):?(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?(?!\d)`,
  ),
  // 261127  4:00:00
  pattern(
    String.raw`(?<year>\d\d)(?<month>\d\d)(?<day>\d\d) {1,2}(?<hour>\d{1,2}):(?<minute>\d\d):(?<second>\d\d)(?!\d)`,
  ),
];

const WEEKDAY = String.raw`(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)`;
/** The patterns of dates that begin with a letter. */
const AFTER_LETTER = [
  // Fri Nov 27 04:00:00.123456 2026, Fri Nov 27 04:00:00 CET 2026
  pattern(
    String.raw`${WEEKDAY}${MONTH} +(?<day>\d{1,2}) ${TIME}(?: (?<zoneName>[A-Z]{3,5}))? (?<year>\d{4})(?!\d)`,
  ),
  // Fri, 27 Nov 2026 04:00:00 +0000
  pattern(String.raw`${WEEKDAY}(?<day>\d{1,2}) ${MONTH} (?<year>\d{4}) ${TIME}`),
  // Nov 27, 2026 4:00:00 PM
  pattern(String.raw`${WEEKDAY}?${MONTH} +(?<day>\d{1,2}),? (?<year>\d{4}),?:? {1,2}${TIME}`),
  // Nov 27 04:00:00
  pattern(String.raw`${WEEKDAY}?${MONTH} +(?<day>\d{1,2}),? {1,2}${TIME}`),
];

const EPOCH = /(\d{10})(?:(\d{9})|(\d{6})|(\d{3}))?(?:[.,](\d{1,9}))?(?=[\s:,|\]]|$)/y;

/** The date that starts at a position; `undefined` if none does. Times without a zone are local. */
export function dateAt(text: string, from: number, hints: DateHints): FoundDate | undefined {
  const first = text.charCodeAt(from);
  const startsWithDigit = first >= 48 && first <= 57;
  const usual = startsWithDigit ? usualDateAt(text, from) : undefined;
  if (usual !== undefined) return usual;
  for (const regExp of startsWithDigit ? AFTER_DIGIT : AFTER_LETTER) {
    regExp.lastIndex = from;
    const groups = regExp.exec(text)?.groups;
    const end = regExp.lastIndex;
    const at = groups && dateOf(groups, hints);
    if (at !== undefined) return { at, end };
  }
  return startsWithDigit ? epochAt(text, from) : undefined;
}

/** Fast path without a pattern for `2026-11-27T04:00:00.123Z` and similar, which most lines begin with. */
function usualDateAt(text: string, from: number): FoundDate | undefined {
  const sign = text.charCodeAt(from + 4);
  const between = text.charCodeAt(from + 10);
  if (sign !== text.charCodeAt(from + 7) || (sign !== DASH && sign !== SLASH)) return undefined;
  if ((between !== CAPITAL_T && between !== BLANK) || text.charCodeAt(from + 13) !== COLON) return undefined;
  if (text.charCodeAt(from + 16) !== COLON) return undefined;
  const year = 100 * digitsAt(text, from) + digitsAt(text, from + 2);
  const day = { year, month: digitsAt(text, from + 5) - 1, day: digitsAt(text, from + 8) };
  const [hour, minute, second] = [
    digitsAt(text, from + 11),
    digitsAt(text, from + 14),
    digitsAt(text, from + 17),
  ];
  let end = from + 19;
  let ms = 0;
  const point = text.charCodeAt(end);
  if ((point === POINT || point === COMMA) && isDigit(text.charCodeAt(end + 1))) {
    let scale = 100;
    for (end += 1; isDigit(text.charCodeAt(end)); end += 1) {
      ms += (text.charCodeAt(end) - 48) * Math.floor(scale);
      scale /= 10;
    }
  }
  // Characters that are no digits have made the sum NaN.
  if (!(hour < 24 && minute < 60 && second <= 60) || HALF_DAY.test(text.slice(end, end + 3))) {
    return undefined;
  }
  ZONE_HERE.lastIndex = end;
  const zone = ZONE_HERE.exec(text)?.[0];
  const at = instant(day, { hour, minute, second, ms, zone: zone === '' ? undefined : zone });
  return at === undefined ? undefined : { at, end: end + (zone?.length ?? 0) };
}

const DASH = 45;
const SLASH = 47;
const CAPITAL_T = 84;
const BLANK = 32;
const COLON = 58;
const POINT = 46;
const COMMA = 44;
const HALF_DAY = /^ ?[AaPp]\.?[Mm]/;
const ZONE_HERE = pattern('');

const isDigit = (code: number) => code >= 48 && code <= 57;

/** The number of two digits; NaN for other characters. */
function digitsAt(text: string, at: number): number {
  const tens = text.charCodeAt(at);
  const ones = text.charCodeAt(at + 1);
  return isDigit(tens) && isDigit(ones) ? 10 * (tens - 48) + (ones - 48) : Number.NaN;
}

function epochAt(text: string, from: number): FoundDate | undefined {
  EPOCH.lastIndex = from;
  const found = EPOCH.exec(text);
  if (found === null) return undefined;
  const [, seconds, nano, micro, milli, after] = found;
  const at = Number(seconds) * 1000 + fractionMs(milli ?? micro ?? nano ?? after);
  return { at, end: EPOCH.lastIndex };
}

type Groups = Readonly<Record<string, string | undefined>>;

function dateOf(groups: Groups, hints: DateHints): number | undefined {
  const time = timeOf(groups);
  if (time === undefined) return undefined;
  const { first, other, monthName, month, day, zone, zoneName } = groups;
  const ofDay = { ...time, zone: zone ?? zoneName };
  if (first !== undefined && other !== undefined) {
    return numericDate(
      { first: Number(first), other: Number(other), sign: groups['sign'] },
      groups,
      ofDay,
      hints,
    );
  }
  const monthIndex = monthName === undefined ? Number(month) - 1 : monthOf(monthName);
  const year = yearOf(groups['year']);
  if (year !== undefined) return instant({ year, month: monthIndex, day: Number(day) }, ofDay);
  return yearlessDate(monthIndex, Number(day), ofDay, hints.reference);
}

interface TimeOfDay {
  hour: number;
  minute: number;
  second: number;
  ms: number;
  zone?: string | undefined;
}

function timeOf({ hour, minute, second, fraction, half }: Groups): TimeOfDay | undefined {
  const h = Number(hour);
  const hours = half === undefined ? h : (h % 12) + (half.toLowerCase() === 'p' ? 12 : 0);
  const time = { hour: hours, minute: Number(minute), second: Number(second ?? 0), ms: fractionMs(fraction) };
  // A minute may have a leap second.
  return time.hour > 23 || time.minute > 59 || time.second > 60 ? undefined : time;
}

interface CalendarDay {
  year: number;
  /** From 0. */
  month: number;
  day: number;
}

function instant({ year, month, day }: CalendarDay, time: TimeOfDay): number | undefined {
  if (!(day >= 1 && day <= daysOf(year, month))) return undefined;
  const { hour, minute, second, ms, zone } = time;
  const offset = zone === undefined ? undefined : offsetOf(zone.trim());
  if (offset === undefined) return new Date(year, month, day, hour, minute, second).getTime() + ms;
  return Date.UTC(year, month, day, hour, minute, second) + ms - offset;
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** 0 if there is no such month. */
function daysOf(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 1 && isLeap ? 29 : (DAYS[month] ?? 0);
}

/** 29 February exists only in leap years, so several years may have to be tried. */
function yearlessDate(month: number, day: number, time: TimeOfDay, reference: number): number | undefined {
  const last = new Date(reference).getFullYear() + 1;
  for (let year = last; year > last - 10; year -= 1) {
    const at = instant({ year, month, day }, time);
    if (at !== undefined && at <= reference + DAY_MS) return at;
  }
  return undefined;
}

/**
 * Dates with dots and dashes begin with the day. Dates with slashes follow the rest of the file, and if that does not
 * show it, the time of its last write: an entry is not newer, and most are not much older.
 */
function numericDate(
  { first, other, sign }: { first: number; other: number; sign: string | undefined },
  groups: Groups,
  time: TimeOfDay,
  { reference, dayFirst }: DateHints,
): number | undefined {
  const year = yearOf(groups['year']);
  if (year === undefined) return undefined;
  const asDay = instant({ year, month: other - 1, day: first }, time);
  const asMonth = instant({ year, month: first - 1, day: other }, time);
  if (asDay === undefined || asMonth === undefined) return asDay ?? asMonth;
  if (sign !== '/' || dayFirst === true) return asDay;
  if (dayFirst === false || groups['half'] !== undefined) return asMonth;
  const latest = reference + DAY_MS;
  if (asDay > latest !== asMonth > latest) return asDay > latest ? asMonth : asDay;
  return Math.max(asDay, asMonth);
}

/** Whether a line shows that dates of this file begin with the day. */
export function dayFirstIn(line: string): boolean | undefined {
  const found = /^[[("]?(\d{1,2})\/(\d{1,2})\/(?:\d{4}|\d\d)[ ,T]/.exec(line);
  if (found === null) return undefined;
  if (Number(found[1]) > 12) return true;
  return Number(found[2]) > 12 ? false : undefined;
}

function yearOf(year: string | undefined): number | undefined {
  if (year === undefined) return undefined;
  return year.length === 2 ? 2000 + Number(year) : Number(year);
}

function monthOf(name: string): number {
  const month = MONTHS.indexOf(name.slice(0, 3).toLowerCase());
  // Names are abbreviated, or complete.
  return name.length > 4 && !LONG_MONTH.test(name) ? -1 : month;
}

const LONG_MONTH = /^(?:january|february|march|april|june|july|august|september|october|november|december)$/i;

const ZONES: Readonly<Record<string, number>> = {
  Z: 0,
  UTC: 0,
  GMT: 0,
  WET: 0,
  WEST: 60,
  CET: 60,
  CEST: 120,
  EET: 120,
  EEST: 180,
  MSK: 180,
  JST: 540,
  EST: -300,
  EDT: -240,
  MST: -420,
  MDT: -360,
  PST: -480,
  PDT: -420,
};

/** In milliseconds; `undefined` for an abbreviation that several zones share. */
function offsetOf(zone: string): number | undefined {
  const found = /^([+-])(\d\d):?(\d\d)?$/.exec(zone);
  if (found === null) {
    const minutes = ZONES[zone];
    return minutes === undefined ? undefined : minutes * 60_000;
  }
  const minutes = Number(found[2]) * 60 + Number(found[3] ?? 0);
  return (found[1] === '-' ? -minutes : minutes) * 60_000;
}

function fractionMs(digits: string | undefined): number {
  return digits === undefined ? 0 : Math.floor(Number(`0.${digits}`) * 1000);
}

import type { LogLevel } from '../../../../protocol/index.ts';

/** The header of the first line of an entry. A line without a time continues the entry before it. */
export interface LineHead {
  at: number;
  message: string;
  source?: string;
  computer?: string;
  level?: LogLevel;
}

const ISO =
  /^(\d{4})[-/](\d\d)[-/](\d\d)[T ]{1,2}(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ?(Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b)?:?\s*/;
const SYSLOG = /^([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) /;
const SYSLOG_TAIL = /^(\S+) ([^\s:[\]]+)(?:\[\d+\])?: ?/;
const APT = /^(?:Start-Date|Log started): /;
const ACCESS =
  /^\S{1,255} \S{1,255} \S{1,255} \[(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\] /;
const APACHE = /^\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d\d) (\d\d):(\d\d):(\d\d)(?:\.\d+)? (\d{4})\] */;
const BRACKETED_COMMON = /^\[(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\] */;
const REDIS = /^\d+:[A-Z] (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d)\.(\d+) /;
const EPOCH = /^(\d{10})(?:(\d{3})|[.,](\d{1,9}))?(?::\s*|\s+)/;
const PROCESS_PREFIX = /^\[\d+\] /;
const PROGRAM_PREFIX = /^([A-Za-z][\w.-]{0,63}) (?=\d{4}-\d\d-\d\d[T ])/;
const PRIORITY = /^<(\d{1,3})>/;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DAY_MS = 86_400_000;

/**
 * Parses the header of an entry; `undefined` where the line has no time. Times without a zone are local. A date without
 * a year is the last such date before `reference`, the time when the file was last written.
 */
export function parseHead(line: string, reference: number): LineHead | undefined {
  const first = line.charCodeAt(0);
  if (first >= 48 && first <= 57) return digitHead(line);
  if (first === 60) return priorityHead(line, reference);
  if (first === 91) return bracketHead(line);
  if (first >= 65 && first <= 90) {
    const syslog = syslogHead(line, reference);
    if (syslog !== undefined) return syslog;
    if (APT.test(line)) {
      const at = parseIso(line.slice(line.indexOf(':') + 2));
      return at && { at: at.at, source: 'apt', message: line };
    }
  }
  const program = PROGRAM_PREFIX.exec(line);
  if (program?.[1] !== undefined) {
    const rest = isoHead(line.slice(program[0].length));
    return rest && { ...rest, source: program[1] };
  }
  return accessHead(line);
}

function digitHead(line: string): LineHead | undefined {
  const iso = isoHead(line);
  if (iso !== undefined) return iso;
  const epoch = EPOCH.exec(line);
  if (epoch !== null) {
    const at = Number(epoch[1]) * 1000 + fraction(epoch[2] ?? epoch[3]);
    return { at, message: line.slice(epoch[0].length) };
  }
  const redis = REDIS.exec(line);
  if (redis !== null) {
    const at = localTime(redis[3], monthOf(redis[2]), redis[1], redis[4], redis[5], redis[6], redis[7]);
    return at === undefined ? undefined : { at, message: line.slice(redis[0].length) };
  }
  return accessHead(line);
}

function isoHead(line: string): LineHead | undefined {
  const found = parseIso(line);
  if (found === undefined) return undefined;
  const rest = line.slice(found.length);
  // With a `T` this is the precise syslog format, in which host and program follow.
  if (line.charCodeAt(10) === 84) {
    const tail = SYSLOG_TAIL.exec(rest);
    if (tail?.[1] !== undefined && tail[2] !== undefined) {
      return { at: found.at, computer: tail[1], source: tail[2], message: rest.slice(tail[0].length) };
    }
  }
  return { at: found.at, message: rest };
}

function parseIso(text: string): { at: number; length: number } | undefined {
  const found = ISO.exec(text);
  if (found === null) return undefined;
  const [all, year, month, day, hour, minute, second, digits, zone] = found;
  const at =
    zone === undefined
      ? localTime(year, Number(month) - 1, day, hour, minute, second, digits)
      : zonedTime(year, Number(month) - 1, day, hour, minute, second, digits, zone);
  return at === undefined ? undefined : { at, length: all.length };
}

function priorityHead(line: string, reference: number): LineHead | undefined {
  const found = PRIORITY.exec(line);
  if (found === null) return undefined;
  const rest = parseHead(line.slice(found[0].length), reference);
  const severity = Number(found[1]) % 8;
  const level: LogLevel =
    severity < 3
      ? 'critical'
      : severity === 3
        ? 'error'
        : severity === 4
          ? 'warning'
          : severity === 7
            ? 'verbose'
            : 'information';
  return rest && { ...rest, level };
}

function bracketHead(line: string): LineHead | undefined {
  const apache = APACHE.exec(line);
  if (apache !== null) {
    const at = localTime(
      apache[6],
      monthOf(apache[1]),
      apache[2],
      apache[3],
      apache[4],
      apache[5],
      undefined,
    );
    return at === undefined ? undefined : { at, message: line.slice(apache[0].length) };
  }
  const common = BRACKETED_COMMON.exec(line);
  if (common !== null) {
    const at = zonedTime(
      common[3],
      monthOf(common[2]),
      common[1],
      common[4],
      common[5],
      common[6],
      undefined,
      common[7] ?? 'Z',
    );
    return at === undefined ? undefined : { at, message: line.slice(common[0].length) };
  }
  const numbered = PROCESS_PREFIX.exec(line);
  if (numbered !== null) return isoHead(line.slice(numbered[0].length));
  const inner = parseIso(line.slice(1));
  if (inner === undefined) return undefined;
  return { at: inner.at, message: line.slice(1 + inner.length).replace(/^\]\s*/, '') };
}

function syslogHead(line: string, reference: number): LineHead | undefined {
  const found = SYSLOG.exec(line);
  if (found === null) return undefined;
  const [all, monthName, day, hour, minute, second] = found;
  const month = monthOf(monthName);
  let year = new Date(reference).getFullYear();
  let at = localTime(String(year), month, day, hour, minute, second, undefined);
  if (at !== undefined && at > reference + DAY_MS) {
    year -= 1;
    at = localTime(String(year), month, day, hour, minute, second, undefined);
  }
  if (at === undefined) return undefined;
  const rest = line.slice(all.length);
  const tail = SYSLOG_TAIL.exec(rest);
  if (tail?.[1] === undefined || tail[2] === undefined) return { at, message: rest };
  return { at, computer: tail[1], source: tail[2], message: rest.slice(tail[0].length) };
}

function accessHead(line: string): LineHead | undefined {
  const found = ACCESS.exec(line);
  if (found === null) return undefined;
  const at = zonedTime(
    found[3],
    monthOf(found[2]),
    found[1],
    found[4],
    found[5],
    found[6],
    undefined,
    found[7] ?? 'Z',
  );
  return at === undefined ? undefined : { at, message: line, level: accessLevel(line) };
}

function accessLevel(line: string): LogLevel {
  const status = /" (\d)\d\d /.exec(line)?.[1];
  return status === '5' ? 'error' : status === '4' ? 'warning' : 'information';
}

const CRITICAL = /(?<![\w./-])(?:crit|critical|fatal|panic|emerg|emergency|alert)(?![\w/-])/i;
const ERROR = /(?<![\w./-])(?:error|err|severe)(?![\w/-])/i;
const WARNING = /(?<![\w./-])(?:warn|warning|wrn)(?![\w/-])/i;
const VERBOSE = /(?<![\w./-])(?:debug|trace|verbose|dbg|trc)(?![\w/-])/i;
/** Levels are named early in a line. Later words belong to the message. */
const LEVEL_WITHIN = 200;

export function levelOfText(message: string): LogLevel {
  const start = message.length > LEVEL_WITHIN ? message.slice(0, LEVEL_WITHIN) : message;
  if (CRITICAL.test(start)) return 'critical';
  if (ERROR.test(start)) return 'error';
  if (WARNING.test(start)) return 'warning';
  return VERBOSE.test(start) ? 'verbose' : 'information';
}

function monthOf(name: string | undefined): number {
  return name === undefined ? -1 : MONTHS.indexOf(name);
}

type Part = string | undefined;

function localTime(
  year: Part,
  month: number,
  day: Part,
  hour: Part,
  minute: Part,
  second: Part,
  digits: Part,
) {
  if (month < 0) return undefined;
  const date = new Date(Number(year), month, Number(day), Number(hour), Number(minute), Number(second));
  const at = date.getTime() + fraction(digits);
  return Number.isNaN(at) ? undefined : at;
}

function zonedTime(
  year: Part,
  month: number,
  day: Part,
  hour: Part,
  minute: Part,
  second: Part,
  digits: Part,
  zone: string,
) {
  if (month < 0) return undefined;
  const utc = Date.UTC(Number(year), month, Number(day), Number(hour), Number(minute), Number(second));
  const at = utc + fraction(digits) - offsetMs(zone);
  return Number.isNaN(at) ? undefined : at;
}

function offsetMs(zone: string): number {
  const found = /^([+-])(\d\d):?(\d\d)$/.exec(zone);
  if (found === null) return 0;
  const minutes = Number(found[2]) * 60 + Number(found[3]);
  return (found[1] === '-' ? -minutes : minutes) * 60_000;
}

function fraction(digits: Part): number {
  return digits === undefined ? 0 : Math.floor(Number(`0.${digits}`) * 1000);
}

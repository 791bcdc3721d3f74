import type { LogLevel } from '../../../../protocol/index.ts';
import { dateAt, type DateHints, type FoundDate } from './line-dates.ts';
import { levelOfName, levelOfSeverity, levelOfText, structuredLine } from './structured-line.ts';

/** The header of the first line of an entry. A line without a time continues the entry before it. */
export interface LineHead {
  at: number;
  message: string;
  source?: string;
  computer?: string;
  level?: LogLevel;
}

/** The colours of terminals, also as rsyslog escapes them. */
const TERMINAL_CODES =
  // oxlint-disable-next-line no-control-regex -- Escape sequences begin with a control character.
  /\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Za-z]|\x1b[ -/]*[0-~]/g;

/** A line without terminal sequences. */
export function plainLine(line: string): string {
  const text = line.includes('\x1b') || line.includes('#033[') ? line.replace(TERMINAL_CODES, '') : line;
  return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
}

const BYTE_ORDER_MARK = 0xfe_ff;

/**
 * Parses the header of an entry; `undefined` if the line has no time. Times without a zone are local.
 *
 * @param hints  the time when the file was last written, and what is known of its dates
 */
export function parseHead(line: string, hints: number | DateHints): LineHead | undefined {
  const known = typeof hints === 'number' ? { reference: hints } : hints;
  return headOf(plainLine(line), known, 0);
}

/** Headers may stand before others: a priority before a date, a thread before a level. */
const NESTING_MAX = 4;

function headOf(line: string, hints: DateHints, depth: number): LineHead | undefined {
  const first = line.charCodeAt(0);
  if (first >= 48 && first <= 57) {
    return datedHead(line, hints) ?? redisHead(line, hints) ?? accessHead(line, hints);
  }
  if (depth > NESTING_MAX) return undefined;
  if (first === BRACE) return fieldsHead(line, hints);
  if (first === ANGLE) return priorityHead(line, hints, depth);
  if (first === BRACKET) return bracketHead(line, hints, depth);
  // Some write an asterisk if the clock is not set, a quote in tables of values, or a bracket around the time.
  if (first === ASTERISK || first === QUOTE || first === ROUND) {
    const found = dateAt(line, 1, hints);
    return found && { at: found.at, message: afterDate(line, found).replace(/^["):]\s*,?/, '') };
  }
  const isLetter = (first >= 65 && first <= 90) || (first >= 97 && first <= 122);
  if (!isLetter) return accessHead(line, hints);
  return (
    datedHead(line, hints) ??
    klogHead(line, hints) ??
    labelledHead(line, hints) ??
    levelHead(line, hints, depth) ??
    programHead(line, hints) ??
    fieldsHead(line, hints) ??
    accessHead(line, hints)
  );
}

const BRACE = 123;
const ANGLE = 60;
const BRACKET = 91;
const ASTERISK = 42;
const QUOTE = 34;
const ROUND = 40;

/** The date comes first. Syslog has the host and the program after it. */
function datedHead(line: string, hints: DateHints): LineHead | undefined {
  const found = dateAt(line, 0, hints);
  if (found === undefined) return undefined;
  const rest = afterDate(line, found);
  const isSyslog = line.charCodeAt(10) === CAPITAL_T || /^[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d/.test(line);
  return withBody(found.at, isSyslog ? syslogBody(rest) : { message: rest }, hints);
}

const CAPITAL_T = 84;

type Body = Omit<LineHead, 'at'>;

const SYSLOG_TAIL = /^(\S+) ([^\s:[\]]+)(?:\[\d+\])?: ?/;
/** The lines of containers, as Kubernetes keeps them. */
const CONTAINER = /^std(?:out|err) [FP] /;

function syslogBody(text: string): Body {
  const container = CONTAINER.exec(text);
  if (container !== null) return { message: text.slice(container[0].length) };
  const tail = SYSLOG_TAIL.exec(text);
  const [all = '', computer, source] = tail ?? [];
  if (computer === undefined || source === undefined || levelOfName(computer) !== undefined) {
    return { message: text };
  }
  return { computer, source, message: text.slice(all.length) };
}

/** The text after the date may itself be a structured entry. */
function withBody(at: number, body: Body, hints: DateHints): LineHead {
  if (!body.message.startsWith('{')) return { at, ...body };
  const inner = structuredLine(body.message, hints);
  if (inner === undefined) return { at, ...body };
  const { at: _, ...fields } = inner;
  return { at, ...body, ...fields };
}

function fieldsHead(line: string, hints: DateHints): LineHead | undefined {
  const found = structuredLine(line, hints);
  return found?.at === undefined ? undefined : { ...found, at: found.at };
}

const REDIS = /^\d+:[A-Z] /;

function redisHead(line: string, hints: DateHints): LineHead | undefined {
  const prefix = REDIS.exec(line)?.[0];
  const found = prefix === undefined ? undefined : dateAt(line, prefix.length, hints);
  return found && { at: found.at, message: afterDate(line, found) };
}

const PRIORITY = /^<(\d{1,3})>(?:1 (?=\d{4}-))?/;
const SYSLOG_5424 =
  /^(\S+) (\S+) (\S+) (\S+) (-|(?:\[(?:[^\]\\"]|\\.|"(?:[^"\\]|\\.)*")*\])+) ?(?:\uFEFF|BOM)?/;

function priorityHead(line: string, hints: DateHints, depth: number): LineHead | undefined {
  const [prefix, priority] = PRIORITY.exec(line) ?? [];
  if (prefix === undefined) return undefined;
  const rest = line.slice(prefix.length);
  const level = levelOfSeverity(Number(priority) % 8) ?? 'information';
  if (prefix.endsWith('1 ')) {
    const found = dateAt(rest, 0, hints);
    const body = found === undefined ? '' : afterDate(rest, found);
    const [all, computer = '-', source = '-'] = SYSLOG_5424.exec(body) ?? [];
    if (found !== undefined && all !== undefined) {
      const named = { ...(computer !== '-' && { computer }), ...(source !== '-' && { source }) };
      return { ...withBody(found.at, { message: body.slice(all.length), ...named }, hints), level };
    }
  }
  const head = headOf(rest, hints, depth + 1);
  return head && { ...head, level };
}

/** What may stand between a date and the bracket after it: a zone, a process, a level. */
const BRACKET_END = /^[^[\]]{0,40}\]:?\s*/;
/** A thread, process, level or facility in brackets before the date. */
const BRACKET_PREFIX = /^\[([^[\]]{1,60})\]:?\s*/;

function bracketHead(line: string, hints: DateHints, depth: number): LineHead | undefined {
  const found = dateAt(line, 1, hints);
  if (found !== undefined) {
    const rest = line.slice(found.end);
    const inside = BRACKET_END.exec(rest)?.[0];
    const level = inside === undefined ? undefined : levelWithin(inside);
    const message = inside === undefined ? afterDate(line, found) : rest.slice(inside.length);
    return withBody(found.at, { message, ...(level !== undefined && { level }) }, hints);
  }
  const [prefix, label = ''] = BRACKET_PREFIX.exec(line) ?? [];
  if (prefix === undefined) return undefined;
  return prefixedHead(line.slice(prefix.length), levelOfName(label.trim()), hints, depth);
}

function levelWithin(text: string): LogLevel | undefined {
  const level = levelOfText(text);
  return level === 'information' ? undefined : level;
}

/** A level must be followed by a date, perhaps in brackets: otherwise the line is part of a message. */
function prefixedHead(
  rest: string,
  level: LogLevel | undefined,
  hints: DateHints,
  depth: number,
): LineHead | undefined {
  if (!/^["[(]?(?:\d|[A-Z])/.test(rest)) return undefined;
  const head = headOf(rest, hints, depth + 1);
  return head && { ...head, ...(level !== undefined && { level }) };
}

const LEVEL_PREFIX = /^([A-Za-z]{1,13})(?:\d)?(?:,|:)?[ :]\s*(?=["[(]?\d|\[?[A-Z][a-z]{2} )/;

function levelHead(line: string, hints: DateHints, depth: number): LineHead | undefined {
  const [prefix, name = ''] = LEVEL_PREFIX.exec(line) ?? [];
  const level = levelOfName(name);
  return prefix === undefined || level === undefined
    ? undefined
    : prefixedHead(line.slice(prefix.length), level, hints, depth);
}

const KLOG = /^([IWEF])(\d{4})?(\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{1,9}) +\d+ ([^\]\s:]+):\d+\] ?/;

/** The lines of Kubernetes and other programs of Google. */
function klogHead(line: string, hints: DateHints): LineHead | undefined {
  const found = KLOG.exec(line);
  if (found === null) return undefined;
  const [all, letter = '', year, month = '', day = '', time = '', source = ''] = found;
  const name = KLOG_MONTHS[Number(month) - 1] ?? '';
  const date = year === undefined ? `${name} ${day} ${time}` : `${year}-${month}-${day} ${time}`;
  const at = dateAt(date, 0, hints)?.at;
  const level = levelOfName(letter) ?? 'information';
  return at === undefined ? undefined : { at, level, source, message: line.slice(all.length) };
}

const KLOG_MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

const APT = /^(?:Start-Date|Log started): /;
const AUDIT = /^(?:node=\S+ )?type=(\S+) msg=audit\((?=\d{10}\.)/;

/** Lines that begin with a fixed label. */
function labelledHead(line: string, hints: DateHints): LineHead | undefined {
  const apt = APT.exec(line);
  if (apt !== null) {
    const found = dateAt(line, apt[0].length, hints);
    return found && { at: found.at, source: 'apt', message: line };
  }
  const audit = AUDIT.exec(line);
  const at = audit === null ? Number.NaN : Number.parseFloat(line.slice(audit[0].length)) * 1000;
  return Number.isNaN(at) ? undefined : { at: Math.round(at), source: 'audit', message: line };
}

const PROGRAM_PREFIX = /^([A-Za-z][\w.-]{0,63}) (?=\d{4}-\d\d-\d\d[T ])/;

function programHead(line: string, hints: DateHints): LineHead | undefined {
  const [prefix, source] = PROGRAM_PREFIX.exec(line) ?? [];
  if (prefix === undefined || source === undefined) return undefined;
  const head = datedHead(line.slice(prefix.length), hints);
  return head && { ...head, source };
}

const ACCESS = /^\S{1,255} \S{1,255} \S{1,255} \[(?=\d\d\/[A-Z])/;

/** The access logs of web servers. */
function accessHead(line: string, hints: DateHints): LineHead | undefined {
  const prefix = ACCESS.exec(line)?.[0];
  const found = prefix === undefined ? undefined : dateAt(line, prefix.length, hints);
  return found && { at: found.at, message: line, level: accessLevel(line) };
}

function accessLevel(line: string): LogLevel {
  const status = /" (\d)\d\d /.exec(line)?.[1];
  return status === '5' ? 'error' : status === '4' ? 'warning' : 'information';
}

function afterDate(line: string, { end }: FoundDate): string {
  return line.slice(end).replace(/^[:,]?\s*/, '');
}

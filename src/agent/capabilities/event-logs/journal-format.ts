import { z } from 'zod';
import type { LogEntry, LogLevel, LogConditions } from '../../../protocol/index.ts';
import { decodeText } from './text/backward-lines.ts';
import { cut, numberOf, timedRecordId, SYSLOG_LEVELS, instantMs } from './log-reader.ts';

/** Converts a JSON line of `journalctl -o json` to an entry. */

/** Text; bytes if it is not valid UTF-8; a list of either; or null if journalctl has omitted a long value. */
const Field = z.union([z.string(), z.null(), z.array(z.unknown())]);
const JournalRecord = z.record(z.string(), Field);
type JournalRecord = z.infer<typeof JournalRecord>;

const FACILITIES: Readonly<Record<string, string>> = {
  0: 'kernel',
  1: 'user',
  2: 'mail',
  3: 'daemon',
  4: 'auth',
  5: 'syslog',
  6: 'lpr',
  7: 'news',
  8: 'uucp',
  9: 'cron',
  10: 'authpriv',
  11: 'ftp',
};

function levelOfPriority(priority: number): LogLevel {
  return SYSLOG_LEVELS[priority] ?? 'information';
}

/** The range of priorities that covers the levels, for journalctl's `--priority`. */
export function priorityRange(levels: readonly LogLevel[]): { from: number; to: number } {
  const priorities = SYSLOG_LEVELS.flatMap((level, priority) => (levels.includes(level) ? [priority] : []));
  return { from: Math.min(...priorities), to: Math.max(...priorities) };
}

/** The source of an entry without any of `SOURCE_FIELDS`. */
export const NO_SOURCE = 'journal';
/** The fields that may name the source of an entry; the first one that is present counts. */
export const SOURCE_FIELDS = ['SYSLOG_IDENTIFIER', '_SYSTEMD_UNIT', '_COMM'] as const;

/** `undefined` for a line that is not a journal record, such as one that was cut off. */
export function parseJournalLine(line: string): LogEntry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  const parsed = JournalRecord.safeParse(json);
  if (!parsed.success) return undefined;
  const record = parsed.data;
  const field = (name: string) => fieldTexts(record[name])[0];
  const microseconds = Number(field('__REALTIME_TIMESTAMP'));
  if (!Number.isSafeInteger(microseconds) || microseconds <= 0) return undefined;
  const at = Math.floor(microseconds / 1000);
  const facility = field('SYSLOG_FACILITY');
  return {
    recordId: timedRecordId(at, numberWithin(record, microseconds)),
    timeCreated: new Date(at).toISOString(),
    level: levelOfPriority(Number(field('PRIORITY') ?? 6)),
    source: SOURCE_FIELDS.map(field).find((name) => name !== undefined) ?? NO_SOURCE,
    eventId: 0,
    message: cut(fieldTexts(record['MESSAGE']).join('\n')),
    category: (facility === undefined ? undefined : FACILITIES[facility]) ?? field('_TRANSPORT') ?? '',
    user: field('_UID') ?? null,
    computer: field('_HOSTNAME') ?? '',
    raw: cut(rawText(record)),
  };
}

/** Every way to call journalctl prints a message up to this length in full. */
const SHORT = 2_000;

/** Distinguishes the entries of a millisecond: the sequence number of the journal, from its cursor. */
function numberWithin(record: JournalRecord, microseconds: number): number {
  const cursor = fieldTexts(record['__CURSOR'])[0] ?? '';
  const sequence = /(?:^|;)i=([0-9a-f]{1,16})(?:;|$)/.exec(cursor)?.[1];
  if (sequence !== undefined) return Number.parseInt(sequence.slice(-8), 16);
  const parts = ['MESSAGE', 'PRIORITY', 'SYSLOG_IDENTIFIER', '_PID'].map((name) =>
    fieldTexts(record[name])
      .filter((text) => text.length <= SHORT)
      .join('\n'),
  );
  return numberOf(cursor, String(microseconds), ...parts);
}

/** journalctl changes the order of fields with each run. Sorting gives the same record the same text each time. */
function rawText(record: JournalRecord): string {
  return JSON.stringify(record, Object.keys(record).sort());
}

/** The values of a field. Most fields have one. */
function fieldTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return [];
  if (value.length > 0 && value.every((item) => typeof item === 'number')) {
    return [decodeText(Buffer.from(value))];
  }
  return value.flatMap(fieldTexts);
}

/** Values of fields are cut to this many characters: twice as long as the longest message that is shown. */
const VALUE_MAX = 65_536;
/** Lines up to this length are taken as they are. */
const LINE_MAX = 1_000_000;
/** Lines that are longer even with their values cut are skipped. */
const SHORTENED_MAX = 16_000_000;

const QUOTE = 34;
const BACKSLASH = 92;
const LOWER_U = 117;

/**
 * Splits the output of journalctl into lines. The values of a very long line are cut while it arrives, because a
 * record that was cut anywhere else cannot be parsed and would be missing.
 */
export class JournalLines {
  readonly #max: number;
  #rest = '';
  #shortenAt = LINE_MAX;
  #isSkipping = false;
  #lost = 0;

  constructor(max = SHORTENED_MAX) {
    this.#max = max;
  }

  /** How many lines were skipped. */
  get lost(): number {
    return this.#lost;
  }

  add(text: string): string[] {
    const [first = '', ...others] = text.split('\n');
    if (!this.#isSkipping) this.#rest += first;
    if (others.length === 0) {
      this.#keepShort();
      return [];
    }
    const last = others.pop() ?? '';
    const lines = [...this.end(), ...others];
    this.#rest = last;
    this.#keepShort();
    return lines;
  }

  /** The last line, if no line break ends it. */
  end(): string[] {
    const wasShortened = this.#shortenAt > LINE_MAX;
    const line = wasShortened ? shortenValues(this.#rest, VALUE_MAX) : this.#rest;
    this.#rest = '';
    this.#shortenAt = LINE_MAX;
    const isComplete = !this.#isSkipping && line !== '';
    this.#isSkipping = false;
    return isComplete ? [line] : [];
  }

  #keepShort(): void {
    if (this.#rest.length <= this.#shortenAt) return;
    this.#rest = shortenValues(this.#rest, VALUE_MAX);
    this.#shortenAt = this.#rest.length + LINE_MAX;
    if (this.#rest.length <= this.#max) return;
    this.#rest = '';
    this.#isSkipping = true;
    this.#lost += 1;
  }
}

/**
 * Cuts the texts and the lists of numbers in JSON. The JSON may be incomplete: the result can be continued with the
 * characters that follow.
 */
export function shortenValues(json: string, max: number): string {
  const parts: string[] = [];
  let kept = 0;
  const drop = (from: number, to: number) => {
    if (to <= from) return;
    parts.push(json.slice(kept, from));
    kept = to;
  };
  for (let at = 0; at < json.length; ) {
    if (json.charCodeAt(at) === QUOTE) {
      const { cutAt, end } = textFrom(json, at + 1, max);
      drop(cutAt, end);
      at = end + 1;
    } else {
      const end = numbersEnd(json, at);
      const cutAt = json.lastIndexOf(',', at + max);
      if (end - at > max && cutAt > at) drop(cutAt, json.lastIndexOf(',', end - 1));
      at = Math.max(at + 1, end);
    }
  }
  parts.push(json.slice(kept));
  return parts.join('');
}

/** The position at which a text may be cut, and its end: at its quote, or before an incomplete escape. */
function textFrom(json: string, start: number, max: number): { cutAt: number; end: number } {
  let cutAt = start;
  let at = start;
  while (at < json.length) {
    if (at - start <= max) cutAt = at;
    const code = json.charCodeAt(at);
    if (code === QUOTE) break;
    const length = code !== BACKSLASH ? 1 : json.charCodeAt(at + 1) === LOWER_U ? 6 : 2;
    if (at + length > json.length) break;
    at += length;
  }
  return { cutAt: at - start <= max ? at : cutAt, end: at };
}

function numbersEnd(json: string, start: number): number {
  let at = start;
  for (; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    const isNumber = (code >= 48 && code <= 57) || code === 44 || code === 32;
    if (!isNumber) break;
  }
  return at;
}

/** Converts queries to arguments of journalctl. A value is always part of one `--name=value` or `FIELD=value` argument. */

export interface JournalLog {
  name: string;
  displayName: string;
  match: readonly string[];
}

const BASE = ['--no-pager', '--quiet', '--output=json'];

/** The fields that an entry needs. Others may hold megabytes, such as those of core dumps. */
const ENTRY_FIELDS = [
  'MESSAGE',
  'PRIORITY',
  'SYSLOG_IDENTIFIER',
  'SYSLOG_FACILITY',
  '_SYSTEMD_UNIT',
  'UNIT',
  '_COMM',
  '_HOSTNAME',
  '_UID',
  '_PID',
  '_TRANSPORT',
  'MESSAGE_ID',
  '_BOOT_ID',
].join(',');

const ENTRY_OUTPUT = [...BASE, '--all', `--output-fields=${ENTRY_FIELDS}`];

/**
 * The clock can be set back and writers race, so a journal is only nearly ordered by time. journalctl stops at the
 * first entry before `--since`, so `--since` is set this much earlier.
 */
const DISORDER_MS = 3_600_000;

export const FIXED_LOGS: readonly JournalLog[] = [
  { name: 'System', displayName: 'System journal', match: [] },
  { name: 'Kernel', displayName: 'Kernel', match: ['_TRANSPORT=kernel'] },
  { name: 'Auth', displayName: 'Sign-ins and rights', match: ['SYSLOG_FACILITY=4', 'SYSLOG_FACILITY=10'] },
];

export function unitLog(unit: string): JournalLog {
  return { name: unit, displayName: `Unit ${unit}`, match: [`--unit=${unit}`] };
}

/** Whether a name may be that of a unit, and therefore of a log in the journal. */
export function isUnitName(name: string): boolean {
  return /\.(?:service|scope|slice|socket|mount|automount|swap|timer|path|target|device)$/i.test(name);
}

/** One line of `journalctl --list-boots`: ` -1 <boot id> <first entry>—<last entry>`. */
export function bootLog(line: string): JournalLog | undefined {
  const found = /^\s*(-?\d+)\s+([0-9a-f]{32})\b/.exec(line);
  if (found === null) return undefined;
  return { name: `boot:${found[1]}`, displayName: `Boot ${found[1]}`, match: [`--boot=${found[2]}`] };
}

interface QueryArgumentOptions {
  /** Matches of single fields; an entry meets the condition on the source if one of them applies. */
  sources?: readonly string[] | undefined;
  /** False if this journalctl cannot search for a pattern. */
  canGrep?: boolean;
}

export function queryArguments(
  log: JournalLog,
  conditions: LogConditions,
  { sources, canGrep = true }: QueryArgumentOptions = {},
): string[] {
  const args = [...ENTRY_OUTPUT, '--reverse'];
  const start = instantMs(conditions.startTime);
  const end = instantMs(conditions.endTime);
  // journalctl compares whole seconds. The exact times are checked on the entries.
  if (start !== undefined) args.push(`--since=@${Math.max(0, Math.floor((start - DISORDER_MS) / 1000))}`);
  if (end !== undefined) args.push(`--until=@${Math.max(0, Math.ceil(end / 1000) + 1)}`);
  if (conditions.level !== undefined) {
    const { from, to } = priorityRange(conditions.level);
    // --priority would drop entries without a priority, which count as information.
    if (!conditions.level.includes('information')) args.push(`--priority=${from}..${to}`);
  }
  if (conditions.text !== undefined && canGrep) {
    args.push(`--grep=${grepPattern(conditions.text)}`, '--case-sensitive=no');
  }
  return [...args, ...matching(log, sources)];
}

/** Matches of the log are joined with each of the sources, because `+` binds less than the others. */
function matching(log: JournalLog, sources: readonly string[] | undefined): string[] {
  if (sources === undefined) return [...log.match];
  const options = log.match.filter((argument) => argument.startsWith('--'));
  const fields = log.match.filter((argument) => !argument.startsWith('--'));
  const alternatives = sources.flatMap((source, at) => [...(at === 0 ? [] : ['+']), ...fields, source]);
  return [...options, ...alternatives];
}

/**
 * A pattern that matches at least every message with the text. journalctl compares bytes and ignores case for ASCII
 * letters only, so a wildcard replaces other characters. `K` and `İ` become ASCII letters in lower case.
 */
export function grepPattern(text: string): string {
  let pattern = '';
  for (const character of text) {
    if (character > '\x7F') pattern += '(?s:.){1,12}';
    else if (/k/i.test(character)) pattern += String.raw`(?:k|\xE2\x84\xAA)`;
    else if (/i/i.test(character)) pattern += String.raw`(?:i|\xC4\xB0)`;
    else if (/[A-Za-z0-9]/.test(character)) pattern += character;
    else pattern += `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  }
  return pattern;
}

export function recordArguments(log: JournalLog, ms: number, fields: 'all' | 'entry'): string[] {
  const second = Math.floor(ms / 1000);
  const output = fields === 'all' ? BASE : ENTRY_OUTPUT;
  return [...output, ...log.match, `--since=@${second}`, `--until=@${second + 1}`];
}

export function tailArguments(log: JournalLog): string[] {
  return [...ENTRY_OUTPUT, '--follow', '--lines=0', ...log.match];
}

export function newestArguments(log: JournalLog): string[] {
  return [...ENTRY_OUTPUT, '--reverse', '--lines=1', ...log.match];
}

export function countArguments(log: JournalLog, max: number): string[] {
  return [...BASE, '--output-fields=PRIORITY', `--lines=${max}`, ...log.match];
}

/** The fields of the newest entries that show to which logs they belong. */
export function surveyArguments(max: number): string[] {
  const fields = ['_SYSTEMD_UNIT', 'UNIT', '_TRANSPORT', 'SYSLOG_FACILITY'];
  return [...BASE, '--reverse', `--lines=${max}`, `--output-fields=${fields.join(',')}`];
}

/** Counts the entries of all logs in one pass over the journal. A count per log would start a process for each. */

const Value = z.union([z.string(), z.array(z.unknown())]).nullish();
const SurveyRecord = z.object({
  __REALTIME_TIMESTAMP: z.string(),
  _BOOT_ID: z.string().nullish(),
  _TRANSPORT: Value,
  SYSLOG_FACILITY: Value,
  _SYSTEMD_UNIT: Value,
  UNIT: Value,
});

interface SurveyedLog {
  count: number;
  /** Milliseconds since 1970. */
  newestAt: number;
}

export class JournalSurvey {
  readonly #byMatch = new Map<string, SurveyedLog>();
  #entries = 0;

  get entries(): number {
    return this.#entries;
  }

  /** Takes a line of `journalctl --reverse`. */
  add(line: string): void {
    const record = SurveyRecord.safeParse(jsonOf(line));
    if (!record.success) return;
    this.#entries += 1;
    const { data } = record;
    const at = Math.floor(Number(data.__REALTIME_TIMESTAMP) / 1000);
    const matches = new Set(['', `--boot=${data._BOOT_ID}`]);
    for (const unit of [...texts(data._SYSTEMD_UNIT), ...texts(data.UNIT)]) matches.add(`--unit=${unit}`);
    for (const transport of texts(data._TRANSPORT)) matches.add(`_TRANSPORT=${transport}`);
    for (const facility of texts(data.SYSLOG_FACILITY)) matches.add(`SYSLOG_FACILITY=${facility}`);
    for (const match of matches) {
      const known = this.#byMatch.get(match);
      if (known === undefined) this.#byMatch.set(match, { count: 1, newestAt: at });
      else known.count += 1;
    }
  }

  /** `undefined` if none of the entries belongs to the log. */
  of({ match }: JournalLog): SurveyedLog | undefined {
    const found = (match.length === 0 ? [''] : match).flatMap((name) => this.#byMatch.get(name) ?? []);
    if (found.length === 0) return undefined;
    return {
      count: found.reduce((sum, { count }) => sum + count, 0),
      newestAt: Math.max(...found.map(({ newestAt }) => newestAt)),
    };
  }
}

function texts(value: z.infer<typeof Value>): string[] {
  if (typeof value === 'string') return [value];
  return (value ?? []).filter((item) => typeof item === 'string');
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

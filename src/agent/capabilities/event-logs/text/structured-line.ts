import { z } from 'zod';
import { LogLevel } from '../../../../protocol/index.ts';
import { SYSLOG_LEVELS } from '../log-reader.ts';
import { dateAt, type DateHints } from './line-dates.ts';

/**
 * Reads lines that hold an entry as fields: JSON (pino, bunyan, zap, zerolog, logrus, winston, Serilog, GELF, ECS,
 * MongoDB, Docker's json-file and others) and `key=value` (logfmt).
 */
export interface StructuredLine {
  /** `undefined` if the line has no time. */
  at: number | undefined;
  message: string;
  level?: LogLevel;
  source?: string;
  computer?: string;
}

const TIME_KEYS = [
  'time',
  'timestamp',
  '@timestamp',
  'ts',
  't',
  '@t',
  'Timestamp',
  'datetime',
  'date',
  'asctime',
  'eventTime',
  'timeMillis',
  'created',
  'instant',
  '_time',
  'requestReceivedTimestamp',
];
const LEVEL_KEYS = [
  'level',
  'lvl',
  'severity',
  '@l',
  'Level',
  'LogLevel',
  'levelname',
  'log.level',
  'loglevel',
  'severity_text',
  's',
  'l',
];
const MESSAGE_KEYS = [
  'msg',
  'message',
  '@m',
  'RenderedMessage',
  '@mt',
  'MessageTemplate',
  'Message',
  'short_message',
  'log',
  'event',
  'text',
  'textPayload',
  'body',
  'error',
];
const SOURCE_KEYS = [
  'logger',
  'name',
  'loggerName',
  'logger_name',
  'SourceContext',
  'Category',
  'component',
  'c',
  'service',
  'app',
];
const COMPUTER_KEYS = ['hostname', 'host'];
/** Long texts that belong to the message. */
const STACK_KEYS = [
  'stack',
  'stack_trace',
  'stackTrace',
  '@x',
  'exception',
  'Exception',
  'exc_info',
  'full_message',
];

const Fields = z.record(z.string(), z.unknown());
type Fields = z.infer<typeof Fields>;

/** `undefined` if the line does not hold fields. */
export function structuredLine(line: string, hints: DateHints): StructuredLine | undefined {
  const text = line.trim();
  if (text.startsWith('{')) return jsonLine(text, hints);
  return LOGFMT.test(text) ? fromFields(logfmtFields(text), text, hints) : undefined;
}

/** Whether a line may be a structured entry, in which the message is only one field. */
export function mayBeStructured(line: string): boolean {
  return line.startsWith('{') || line.includes(' {"') || LOGFMT.test(line);
}

function jsonLine(text: string, hints: DateHints): StructuredLine | undefined {
  if (!text.endsWith('}')) return cutJson(text, hints);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return cutJson(text, hints);
  }
  const fields = Fields.safeParse(json);
  if (!fields.success || Object.keys(fields.data).length === 0) return undefined;
  return fromFields(fields.data, text, hints);
}

/** The time and the level are also read from JSON that is cut off because the line is very long. */
function cutJson(text: string, hints: DateHints): StructuredLine | undefined {
  if (!/^\{\s*"/.test(text)) return undefined;
  const fields: Fields = {};
  for (const [, key = '', string, number] of text.matchAll(SIMPLE_FIELD)) {
    if (!Object.hasOwn(fields, key)) fields[key] = string ?? Number(number);
  }
  const found = fromFields(fields, text, hints);
  return found.at === undefined ? undefined : { ...found, message: text };
}

const SIMPLE_FIELD = /"([@\w.]{1,40})"\s*:\s*(?:"([^"\\]{0,100})"|(\d{1,20}(?:\.\d{1,9})?))(?=\s*[,}])/g;

function fromFields(fields: Fields, whole: string, hints: DateHints): StructuredLine {
  const level = levelOf(first(fields, LEVEL_KEYS) ?? nested(fields, 'log', 'level'));
  const source = textOf(first(fields, SOURCE_KEYS));
  const computer = textOf(first(fields, COMPUTER_KEYS));
  return {
    at: timeOf(first(fields, TIME_KEYS), hints),
    message: messageOf(fields) ?? whole,
    ...(level !== undefined && { level }),
    ...(source !== undefined && { source }),
    ...(computer !== undefined && { computer }),
  };
}

function first(fields: Fields, keys: readonly string[]): unknown {
  const key = keys.find(
    (name) => Object.hasOwn(fields, name) && fields[name] !== null && fields[name] !== '',
  );
  return key === undefined ? undefined : fields[key];
}

function nested(fields: Fields, outer: string, inner: string): unknown {
  const value = Fields.safeParse(fields[outer]);
  return value.success && Object.hasOwn(value.data, inner) ? value.data[inner] : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function messageOf(fields: Fields): string | undefined {
  const texts = MESSAGE_KEYS.map((key) => (Object.hasOwn(fields, key) ? textOf(fields[key]) : undefined));
  const message = texts.find((text) => text !== undefined)?.trimEnd();
  if (message === undefined) return undefined;
  const stacks = STACK_KEYS.flatMap(
    (key) => textOf(Object.hasOwn(fields, key) ? fields[key] : undefined) ?? [],
  );
  const error = textOf(nested(fields, 'err', 'stack')) ?? textOf(nested(fields, 'error', 'stack_trace'));
  return [message, ...stacks, ...(error === undefined ? [] : [error])].join('\n');
}

function levelOf(value: unknown): LogLevel | undefined {
  if (typeof value === 'number') return levelOfNumber(value);
  if (typeof value !== 'string') return undefined;
  return /^\d{1,2}$/.test(value) ? levelOfNumber(Number(value)) : levelOfName(value);
}

const MongoDate = z.object({ $date: z.union([z.string(), z.number()]) });
const Log4jInstant = z.object({ epochSecond: z.number(), nanoOfSecond: z.number().optional() });

function timeOf(value: unknown, hints: DateHints): number | undefined {
  if (typeof value === 'number') return epochMs(value);
  if (typeof value === 'string') {
    const text = value.trim();
    if (/^\d{9,19}(?:\.\d+)?$/.test(text)) return epochMs(Number(text));
    return dateAt(text, 0, hints)?.at;
  }
  const mongo = MongoDate.safeParse(value);
  if (mongo.success) return timeOf(mongo.data.$date, hints);
  const log4j = Log4jInstant.safeParse(value);
  if (!log4j.success) return undefined;
  return epochMs(log4j.data.epochSecond + (log4j.data.nanoOfSecond ?? 0) / 1e9);
}

/** Seconds, milliseconds, microseconds or nanoseconds, by the size of the number. Small numbers are no times. */
function epochMs(value: number): number | undefined {
  if (!(value >= 1e8)) return undefined;
  const seconds =
    value < 1e11 ? value : value < 1e14 ? value / 1e3 : value < 1e17 ? value / 1e6 : value / 1e9;
  const ms = Math.round(seconds * 1000);
  return Number.isNaN(new Date(ms).getTime()) ? undefined : ms;
}

const LOGFMT =
  /^(?:[\w.-]{1,40}=(?:"(?:[^"\\]|\\.){0,500}"|[^\s"]{0,500})\s+){0,4}(?:time|ts|t|timestamp|@timestamp|date|level|lvl)=\S/;
const LOGFMT_FIELD = /([@\w.-]{1,60})=(?:"((?:[^"\\]|\\.)*)"|(\S*))/g;

function logfmtFields(text: string): Fields {
  const fields: Fields = {};
  for (const [, key = '', quoted, plain] of text.matchAll(LOGFMT_FIELD)) {
    if (!Object.hasOwn(fields, key)) fields[key] = plain ?? quoted?.replace(/\\(["\\])/g, '$1');
  }
  return fields;
}

/** Finds the level of an entry in the words and numbers that programs use for it. */

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

const NAMES: Readonly<Record<LogLevel, string>> = {
  critical: 'emerg emergency alert crit critical fatal ftl panic dpanic f c a',
  error: 'error err eror severe failure fail failed e',
  warning: 'warning warn wrn w',
  information: 'information info inf informational notice note log config success i n',
  verbose: 'debug dbg trace trc verbose vrb fine finer finest silly d t v d1 d2 d3 d4 d5',
};
const LEVEL_OF_NAME = new Map<string, LogLevel>(
  LogLevel.options.flatMap((level) => NAMES[level].split(' ').map((name) => [name, level] as const)),
);

/** The level that a word stands for; `undefined` for other words. */
export function levelOfName(name: string): LogLevel | undefined {
  return LEVEL_OF_NAME.get(name.toLowerCase());
}

/** The level of syslog, which GELF has too: 0 to 7, the gravest first. */
export function levelOfSeverity(severity: number): LogLevel | undefined {
  return SYSLOG_LEVELS[severity];
}

/** The numbers of pino and bunyan: from 10 (trace) to 60 (fatal). Smaller ones are those of syslog. */
function levelOfNumber(level: number): LogLevel | undefined {
  if (level < 10) return levelOfSeverity(level);
  if (level < 30) return 'verbose';
  if (level < 40) return 'information';
  if (level < 50) return 'warning';
  return level < 60 ? 'error' : 'critical';
}

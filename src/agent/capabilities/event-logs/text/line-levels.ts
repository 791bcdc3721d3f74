import { LogLevel } from '../../../../protocol/index.ts';
import { SYSLOG_LEVELS } from '../syslog-levels.ts';

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
export function levelOfNumber(level: number): LogLevel | undefined {
  if (level < 10) return levelOfSeverity(level);
  if (level < 30) return 'verbose';
  if (level < 40) return 'information';
  if (level < 50) return 'warning';
  return level < 60 ? 'error' : 'critical';
}

import type { LogConditions } from '../../../../protocol/index.ts';
import { instantMs } from '../conditions.ts';
import { priorityRange } from './journal-format.ts';

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
 * Clocks are set back and writers race, so a journal is only nearly ordered by time. journalctl stops at the first entry
 * before `--since`, so it is asked for this much more.
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

/** Whether a name may be that of a unit, and so of a log in the journal. */
export function isUnitName(name: string): boolean {
  return /\.(?:service|scope|slice|socket|mount|automount|swap|timer|path|target|device)$/i.test(name);
}

/** One line of `journalctl --list-boots`: ` -1 <boot id> <first entry>—<last entry>`. */
export function bootLog(line: string): JournalLog | undefined {
  const found = /^\s*(-?\d+)\s+([0-9a-f]{32})\b/.exec(line);
  if (found === null) return undefined;
  return { name: `boot:${found[1]}`, displayName: `Boot ${found[1]}`, match: [`--boot=${found[2]}`] };
}

export interface QueryArgumentOptions {
  /** Matches of single fields, each of which stands for the condition on the source. */
  sources?: readonly string[] | undefined;
  /** False where this journalctl cannot search for a pattern. */
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
 * A pattern that finds at least all messages with the text. journalctl compares bytes and knows upper and lower case of
 * ASCII letters only, so any bytes stand for other characters. `K` and `İ` become ASCII letters in lower case.
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

/** The fields that show to which logs an entry belongs, of the newest entries. */
export function surveyArguments(max: number): string[] {
  const fields = ['_SYSTEMD_UNIT', 'UNIT', '_TRANSPORT', 'SYSLOG_FACILITY'];
  return [...BASE, '--reverse', `--lines=${max}`, `--output-fields=${fields.join(',')}`];
}

import type { LogConditions } from '../../../../protocol/index.ts';
import { instantMs } from '../conditions.ts';
import { DISORDER_MS } from '../page.ts';
import { priorityRange } from './journal-format.ts';

/** Converts queries to arguments of journalctl. A value is always part of one `--name=value` argument. */

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

export const FIXED_LOGS: readonly JournalLog[] = [
  { name: 'System', displayName: 'System journal', match: [] },
  { name: 'Kernel', displayName: 'Kernel', match: ['_TRANSPORT=kernel'] },
  { name: 'Auth', displayName: 'Sign-ins and rights', match: ['SYSLOG_FACILITY=4', 'SYSLOG_FACILITY=10'] },
];

export function unitLog(unit: string): JournalLog {
  return { name: unit, displayName: `Unit ${unit}`, match: [`--unit=${unit}`] };
}

/** One line of `journalctl --list-boots`: ` -1 <boot id> <first entry>—<last entry>`. */
export function bootLog(line: string): JournalLog | undefined {
  const found = /^\s*(-?\d+)\s+([0-9a-f]{32})\b/.exec(line);
  if (found === null) return undefined;
  return { name: `boot:${found[1]}`, displayName: `Boot ${found[1]}`, match: [`--boot=${found[2]}`] };
}

export function queryArguments(log: JournalLog, conditions: LogConditions): string[] {
  const args = [...ENTRY_OUTPUT, '--reverse', ...log.match];
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
  return args;
}

export function recordArguments(log: JournalLog, recordId: number, fields: 'all' | 'entry'): string[] {
  const second = Math.floor(recordId / 1_000_000);
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

import type { LogRow } from './log-row.ts';

/** One line of the list: an entry, or several that repeat it. */
export interface LogLine {
  row: LogRow;
  /** How many entries the line stands for. */
  count: number;
  /** Whether the entry is one of those that an opened line stands for. */
  isRepeat: boolean;
}

/** Numbers differ from one repeat to the next: addresses, process ids, counters. */
const NUMBERS = /\b(?:0x[\da-f]+|[\da-f]{8}-[\da-f-]{27}|[\da-f]*\d[\da-f]*)\b/gi;

/** Of thousands of rows, few are new each time. */
const signatures = new WeakMap<LogRow, string>();

function signatureOf(row: LogRow): string {
  const known = signatures.get(row);
  if (known !== undefined) return known;
  const { deviceId, level, source, eventId, message } = row;
  const signature = [deviceId, level, source, eventId, message.replaceAll(NUMBERS, '#')].join('\0');
  signatures.set(row, signature);
  return signature;
}

/** Each entry as a line of its own. */
export const linesOf = (rows: readonly LogRow[]): LogLine[] =>
  rows.map((row) => ({ row, count: 1, isRepeat: false }));

/**
 * Entries that follow each other and differ in numbers only, as one line: the first of them, and how many they are.
 * @param opened  keys of the lines of which every entry is shown
 */
export function collapsedLines(rows: readonly LogRow[], opened: ReadonlySet<string>): LogLine[] {
  const lines: LogLine[] = [];
  let head: LogLine | undefined;
  let signature = '';
  for (const row of rows) {
    const own = signatureOf(row);
    if (head !== undefined && own === signature) {
      head.count++;
      if (opened.has(head.row.key)) lines.push({ row, count: 1, isRepeat: true });
    } else {
      head = { row, count: 1, isRepeat: false };
      signature = own;
      lines.push(head);
    }
  }
  return lines;
}

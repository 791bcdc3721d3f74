import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';
import type { RawLine } from './backward-lines.ts';
import type { DateHints } from './line-dates.ts';
import { parseHead, plainLine, type LineHead } from './line-format.ts';
import { levelOfText } from './line-levels.ts';
import { mayBeStructured, structuredLine } from './structured-line.ts';
import type { TextEncoding } from './text-encoding.ts';

/** Groups lines into entries: a line with a time, and the lines without one after it. */

const LINES_PER_ENTRY = 500;
const CHARS_PER_ENTRY = 65_536;

export interface PartContext {
  /** Record ids are this number plus the offset of the entry's first line. */
  idBase: number;
  /** When the file was last written is the time of entries without one. */
  hints: DateHints;
  source: string;
  computer: string;
  /** False where no line of the file has a time. Then each line is an entry. */
  timed: boolean;
  encoding: TextEncoding;
}

export function headOf(line: RawLine, part: PartContext): LineHead | undefined {
  return part.timed ? parseHead(line.text, part.hints) : untimedHead(line, part.hints.reference);
}

/** The head of a line without a time. */
export function untimedHead(line: RawLine, at: number): LineHead {
  const text = plainLine(line.text);
  const fields = text.startsWith('{') ? structuredLine(text, { reference: at }) : undefined;
  return { message: text, ...fields, at };
}

/** The lines that continue an entry, as many of them as are shown. */
function textBehind(first: RawLine, continued: readonly RawLine[], change: (line: string) => string): string {
  let text = '';
  let length = first.text.length;
  for (const line of continued.slice(0, LINES_PER_ENTRY)) {
    if (length > CHARS_PER_ENTRY) break;
    text += `\n${change(line.text)}`;
    length += line.text.length + 1;
  }
  return text;
}

function wholeMessage(first: RawLine, head: LineHead, continued: readonly RawLine[]): string {
  return cut((head.message + textBehind(first, continued, plainLine)).trimEnd());
}

/** Builds an entry from its first line and the lines that continue it, in their order in the file. */
export function buildEntry(
  first: RawLine,
  head: LineHead,
  continued: readonly RawLine[],
  part: PartContext,
): LogEntry {
  const message = wholeMessage(first, head, continued);
  const raw = first.text + textBehind(first, continued, (line) => line);
  return {
    recordId: part.idBase + first.offset,
    timeCreated: new Date(head.at).toISOString(),
    level: head.level ?? levelOfText(message),
    source: head.source ?? part.source,
    eventId: 0,
    message,
    category: '',
    user: null,
    computer: head.computer ?? part.computer,
    raw: cut(raw.trimEnd()),
  };
}

const NONE: readonly RawLine[] = [];

function levelOf(first: RawLine, head: LineHead, continued: readonly RawLine[]): LogLevel {
  return head.level ?? levelOfText(wholeMessage(first, head, continued));
}

/** Where a text is looked for: of an entry of fields, the message is only one. */
export function searchedText({ message, raw }: LogEntry): string {
  return raw !== undefined && mayBeStructured(raw) ? `${message}\n${raw}` : message;
}

/** Conditions that are checked before an entry is built, which takes as long as reading its lines. */
export interface EarlyConditions {
  levels?: ReadonlySet<LogLevel> | undefined;
  start?: number;
  end?: number;
}

/** Converts lines to entries, both from the last to the first. */
export class BackwardEntries {
  readonly #part: PartContext;
  readonly #early: Required<EarlyConditions>;
  #waiting: RawLine[] = [];
  #newestAt: number | undefined;

  #rejected = 0;

  constructor(part: PartContext, { levels, start = -Infinity, end = Infinity }: EarlyConditions = {}) {
    this.#part = part;
    this.#early = { levels, start, end };
  }

  /** How many entries were not built, because they do not meet the early conditions. */
  get rejected(): number {
    return this.#rejected;
  }

  add(lines: readonly RawLine[]): LogEntry[] {
    const entries: LogEntry[] = [];
    for (const line of lines) {
      if (!this.#part.timed && line.text === '') continue;
      const head = headOf(line, this.#part);
      if (head === undefined) {
        this.#waiting.push(line);
        // Only the lines next to the first line are kept in the entry.
        if (this.#waiting.length > 2 * LINES_PER_ENTRY) this.#waiting = this.#waiting.slice(-LINES_PER_ENTRY);
        continue;
      }
      const entry = this.#entry(line, head);
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  /** Drops the lines that wait for the first line of their entry. */
  forget(): void {
    this.#waiting = [];
  }

  /** The lines before the first one with a time become an entry with the time of the next one. */
  end(): LogEntry[] {
    const first = this.#waiting.pop();
    if (first === undefined) return [];
    const entry = this.#entry(first, untimedHead(first, this.#newestAt ?? this.#part.hints.reference));
    return entry === undefined || entry.message === '' ? [] : [entry];
  }

  #entry(first: RawLine, head: LineHead): LogEntry | undefined {
    const continued = this.#waiting.length === 0 ? NONE : this.#waiting.reverse();
    if (continued !== NONE) this.#waiting = [];
    this.#newestAt = head.at;
    const { levels, start, end } = this.#early;
    if (
      head.at < start ||
      head.at > end ||
      (levels !== undefined && !levels.has(levelOf(first, head, continued)))
    ) {
      this.#rejected += 1;
      return undefined;
    }
    return buildEntry(first, head, continued, this.#part);
  }
}

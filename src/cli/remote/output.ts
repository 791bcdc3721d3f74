import type { CommandIo } from '../io.ts';
import { z } from 'zod';
import { DeviceSummary } from '../../protocol/index.ts';
import { localTime } from './local-time.ts';

/** The printed columns; JSON output contains the whole REST response. */
export const Device = DeviceSummary.extend({
  osVersion: z.string().optional(),
  architecture: z.string().optional(),
  lastIp: z.string().nullish(),
  tags: z.array(z.string()).optional(),
}).loose();
export type Device = z.infer<typeof Device>;

const percent = (value: number | undefined) => (value === undefined ? '' : `${Math.round(value)} %`);

/** What a table shows of a device. */
export const COLUMNS = {
  hostname: ({ hostname }: Device) => hostname,
  name: ({ displayName }: Device) => displayName ?? '',
  status: ({ status }: Device) => status,
  since: ({ presence }: Device) => localTime(presence.since),
  reason: ({ presence }: Device) => presence.reason,
  os: ({ osType }: Device) => osType,
  osVersion: ({ osVersion = '' }: Device) => osVersion,
  architecture: ({ architecture = '' }: Device) => architecture,
  agent: ({ agentVersion }: Device) => agentVersion,
  lastSeen: ({ lastSeenAt }: Device) => (lastSeenAt === null ? 'never' : localTime(lastSeenAt)),
  ip: ({ lastIp }: Device) => lastIp ?? '',
  cpu: ({ metrics }: Device) => percent(metrics?.cpuPercent),
  ram: ({ metrics }: Device) => percent(metrics?.ramPercent),
  disk: ({ metrics }: Device) => percent(metrics?.diskPercent),
  tags: ({ tags = [] }: Device) => tags.join(','),
  id: ({ id }: Device) => id,
  org: ({ orgId }: Device) => orgId,
  site: ({ siteId }: Device) => siteId,
} as const;
export type ColumnName = keyof typeof COLUMNS;

/**
 * Names of devices and log entries are untrusted. A terminal executes control characters, so such a text could
 * overwrite earlier lines or fill the clipboard. They are printed as escapes. Pure.
 */

/** Control characters, invisible formats such as direction overrides, line separators, and half characters. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escaped = (character: string) => {
  const code = character.codePointAt(0) ?? 0;
  return NAMED[character] ?? (code < 0x100 ? `\\x${hex(code, 2)}` : `\\u{${hex(code, 4)}}`);
};
const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');

/** Untrusted text as one line without terminal control. */
export const visible = (text: string): string => text.replace(UNSAFE, escaped);

/** The same for text of several lines, such as the output of a script. */
export const visibleLines = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .replace(UNSAFE, (character) => (/[\n\t]/.test(character) ? character : escaped(character)));

/** One line of JSON without terminal control: JSON itself escapes only some control characters. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value).replace(UNSAFE, (character) =>
    character
      .split('')
      .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`)
      .join(''),
  );

/** Standard output is for results, standard error for remarks. */
export interface Output {
  readonly isJson: boolean;
  /** Width of the terminal; `undefined` if the output is not a terminal, and is not cut. */
  readonly width: number | undefined;
  /**
   * Aborted when standard output takes no more: `muster devices | head` has what it wanted when `head` ends. The
   * command then ends quietly, and what it runs on devices ends with it. With success, unless it could not be written.
   */
  readonly unread: AbortSignal;
  /** Text that is already escaped (`visible`). */
  line(text: string): void;
  /** A piece of escaped text, which need not end with its line. */
  piece(text: string): void;
  json(value: unknown): void;
  /** A remark, which may contain untrusted text. */
  remark(text: string): void;
}

export function createOutput(
  { stdout, stderr }: CommandIo,
  { json = false }: { json?: boolean | undefined },
): Output {
  const unread = new AbortController();
  stdout.on('error', () => unread.abort());
  let isAtStart = true;
  const write = (text: string) => {
    if (text === '') return;
    stdout.write(text);
    isAtStart = text.endsWith('\n');
  };
  return {
    isJson: json,
    width: stdout.isTTY === true ? stdout.columns : undefined,
    unread: unread.signal,
    line: (text) => write(`${isAtStart ? '' : '\n'}${text}\n`),
    piece: write,
    json: (value) => write(`${visibleJson(value)}\n`),
    // Written after the earlier output: a reader that has stopped does not get the rest.
    remark: (text) =>
      void stdout.write('', (error) => {
        if (error == null) stderr.write(`${visible(text)}\n`);
      }),
  };
}

/** Lines with aligned columns. If there is a width, the last column is cut to it. Pure. */
export function table(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  width: number | undefined,
): string[] {
  const lines = [titles, ...rows].map((cells) => cells.map(visible));
  const widths = titles.map((_title, at) =>
    lines.reduce((most, cells) => Math.max(most, lengthOf(cells[at])), 0),
  );
  return lines.map((cells) => {
    const line = cells.map((cell, at) => cell + ' '.repeat((widths[at] ?? 0) - lengthOf(cell))).join('  ');
    return fitted(line.trimEnd(), width);
  });
}

/** The line cut to the width; a cut is marked. */
export function fitted(line: string, width: number | undefined): string {
  if (width === undefined || lengthOf(line) <= width) return line;
  return `${charactersOf(line)
    .slice(0, Math.max(0, width - 1))
    .join('')}…`;
}

const lengthOf = (text = '') => charactersOf(text).length;

const segmenter = new Intl.Segmenter();
/** Counts visible characters: an emoji of several code points is one. */
function charactersOf(text: string): string[] {
  return /^[ -~]*$/.test(text)
    ? text.split('')
    : Array.from(segmenter.segment(text), ({ segment }) => segment);
}

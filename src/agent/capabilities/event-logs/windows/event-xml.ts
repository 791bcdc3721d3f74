import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';
import {
  childOf,
  childrenOf,
  describeElements,
  parseElements,
  textOf,
  type EventElement,
} from './event-elements.ts';

/** Converts an `<Event>` of `wevtutil qe`, with or without its rendered message, to an entry. */

const LEVELS: readonly LogLevel[] = ['information', 'critical', 'error', 'warning', 'information', 'verbose'];

/** The levels of Windows that an entry of these levels may have. Numbers above 5 belong to single providers. */
export function windowsLevels(levels: readonly LogLevel[]): number[] {
  return LEVELS.flatMap((level, number) => (levels.includes(level) ? [number] : []));
}

export const HIGHEST_LEVEL = LEVELS.length - 1;

/** The keyword that Windows gives to each refused access, such as a failed sign-in (4625). */
export const AUDIT_FAILURE = 0x10_00_00_00_00_00_00n;

/**
 * Audit events have no level of their own: Windows writes 0 and puts the result into the keywords. A failure counts as a
 * warning, so that filters find it and it is sent to the server.
 */
function levelOf(system: EventElement): LogLevel {
  const level = LEVELS[Number(textOf(system, 'Level') || 0)] ?? 'information';
  return level === 'information' && isAuditFailure(textOf(system, 'Keywords')) ? 'warning' : level;
}

function isAuditFailure(keywords: string): boolean {
  return /^0x[0-9a-f]{1,16}$/i.test(keywords) && (BigInt(keywords) & AUDIT_FAILURE) !== 0n;
}

/** `undefined` for text that is not an event: without a time. */
export function parseEventXml(xml: string): LogEntry | undefined {
  const event = parseElements(xml);
  const system = childOf(event, 'System');
  if (event === undefined || system === undefined) return undefined;
  const at = systemTime(childOf(system, 'TimeCreated')?.attributes.get('SystemTime') ?? '');
  if (at === undefined) return undefined;
  const provider = childOf(system, 'Provider');
  const rendering = childOf(event, 'RenderingInfo');
  return {
    recordId: foldedId(textOf(system, 'EventRecordID')),
    timeCreated: new Date(at).toISOString(),
    level: levelOf(system),
    source: provider?.attributes.get('Name') || provider?.attributes.get('EventSourceName') || '',
    eventId: wholeNumber(textOf(system, 'EventID')),
    // Where the provider is not installed, Windows renders no message, so the data is shown.
    message: cut(textOf(rendering, 'Message') || dataOf(event)),
    category: textOf(rendering, 'Task'),
    user: childOf(system, 'Security')?.attributes.get('UserID') || null,
    computer: textOf(system, 'Computer'),
    rawXml: cut(xml.trim()),
  };
}

/** The values of the event, one a line: of the usual `EventData`, and of elements that the provider has made up. */
function dataOf(event: EventElement): string {
  const values: string[] = [];
  for (const data of childrenOf(event, 'EventData')) {
    values.push(data.text.trim());
    for (const child of data.children) {
      if (child.name === 'Binary') continue;
      values.push(child.name === 'Data' ? child.text.trim() : describeElements(child));
    }
  }
  for (const child of event.children) {
    if (!COMMON.has(child.name)) values.push(describeElements(child));
  }
  return values.filter((value) => value !== '').join('\n');
}

const COMMON = new Set(['System', 'EventData', 'RenderingInfo']);

/** Windows counts in 64 bits. Larger numbers than those that JSON can carry keep their low 53 bits. */
export function foldedId(text: string): number {
  return /^\d{1,20}$/.test(text) ? Number(BigInt(text) & BigInt(Number.MAX_SAFE_INTEGER)) : 0;
}

function wholeNumber(text: string): number {
  const value = Number(text);
  return Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

/** Times are UTC, with a `T` and a `Z` or without. */
function systemTime(text: string): number | undefined {
  const found = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)Z?$/.exec(text.trim());
  if (found === null) return undefined;
  const at = Date.parse(`${found[1]}T${found[2]}Z`);
  return Number.isNaN(at) ? undefined : at;
}

/** `wevtutil /uni:true` prints UTF-16, in some builds without a byte order mark, so the first bytes are inspected. */
export function windowsEncoding(first: Buffer): BufferEncoding {
  return (first[0] === 0xff && first[1] === 0xfe) || (first.length > 1 && first[1] === 0)
    ? 'utf16le'
    : 'utf8';
}

import type { LogEntry, LogLevel } from '../../../protocol/index.ts';
import { cut } from './log-reader.ts';

/** Converts an `<Event>` of `wevtutil qe`, with or without its rendered message, to an entry. */

const LEVELS: readonly LogLevel[] = ['information', 'critical', 'error', 'warning', 'information', 'verbose'];

/** The Windows levels that match these levels. Numbers above 5 are defined by single providers. */
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

/**
 * `undefined` for text that is not an event: without a time.
 * @param isRendered  whether Windows was asked for the message, so that one that is not there does not exist
 */
export function parseEventXml(xml: string, isRendered = true): LogEntry | undefined {
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
    message: cut(textOf(rendering, 'Message') || withRemark(dataOf(event), isRendered)),
    category: textOf(rendering, 'Task'),
    user: userOf(event, childOf(system, 'Security')?.attributes.get('UserID')),
    computer: textOf(system, 'Computer'),
    rawXml: cut(xml.trim()),
  };
}

const withRemark = (data: string, isRendered: boolean) =>
  [data, isRendered ? NO_MESSAGE : ''].filter(Boolean).join('\n');

/** Stands after the data of an event whose provider is not installed, so that Windows has no text for it. */
export const NO_MESSAGE = '(Windows has no text for this event.)';

/** The values of the event, one per line: of the usual `EventData`, and of elements that the provider defines. */
function dataOf(event: EventElement): string {
  const values: string[] = [];
  for (const data of childrenOf(event, 'EventData')) {
    values.push(data.text.trim());
    for (const child of data.children) values.push(valueOf(child));
  }
  for (const child of event.children) {
    if (!COMMON.has(child.name)) values.push(describeElements(child));
  }
  return values.filter((value) => value !== '').join('\n');
}

/** Providers without names for their values number them: `param1`. */
const NUMBERED = /^(?:param|data|string|arg)?\d*$/i;

function valueOf(data: EventElement): string {
  const text = data.text.trim();
  if (data.name === 'Binary') return text === '' ? '' : `Binary: ${cut(text, BINARY_MAX)}`;
  if (data.name !== 'Data') return describeElements(data);
  const name = data.attributes.get('Name') ?? '';
  return text === '' || NUMBERED.test(name) ? text : `${name}: ${text}`;
}

/** In hexadecimal digits. */
const BINARY_MAX = 512;

/** The accounts that every Windows has (MS-DTYP 2.4.2.4). */
const WELL_KNOWN: ReadonlyMap<string, string> = new Map([
  ['S-1-5-7', String.raw`NT AUTHORITY\ANONYMOUS LOGON`],
  ['S-1-5-18', String.raw`NT AUTHORITY\SYSTEM`],
  ['S-1-5-19', String.raw`NT AUTHORITY\LOCAL SERVICE`],
  ['S-1-5-20', String.raw`NT AUTHORITY\NETWORK SERVICE`],
]);

/** The name of the account if it is well known or the data of the event contains it; otherwise its SID. */
function userOf(event: EventElement, sid = ''): string | null {
  if (sid === '') return null;
  const known = WELL_KNOWN.get(sid);
  if (known !== undefined) return known;
  const data = childrenOf(event, 'EventData').flatMap(({ children }) => children);
  const valueNamed = (name: string) =>
    data.find(({ attributes }) => attributes.get('Name') === name)?.text.trim() ?? '';
  for (const { attributes, text } of data) {
    const [, whose] = /^(.*?)(?:User)?Sid$/.exec(attributes.get('Name') ?? '') ?? [];
    if (whose === undefined || text.trim() !== sid) continue;
    const [name, domain] = [valueNamed(`${whose}UserName`), valueNamed(`${whose}DomainName`)];
    if (name !== '' && name !== '-') return [domain, name].filter((part) => !/^-?$/.test(part)).join('\\');
  }
  return sid;
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

/** The longest unfinished text that may still become an event. Real events have some kilobytes. */
const EVENT_LENGTH_MAX = 2_000_000;

const MARKS = /<!\[CDATA\[|<!--|<Event(?:\s(?:"[^"<]*"|'[^'<]*'|[^"'<>])*)?>|<\/Event\s*>/g;

/**
 * Splits text into its `<Event>…</Event>` elements, which wevtutil prints without a common root. An event may contain
 * the closing tag itself, in a CDATA section or as an inner element of that name.
 */
export class EventSplitter {
  /** Text that begins with the unfinished event, if there is one. */
  #rest = '';
  /** The position up to which the text was parsed, and how many elements of the name are open there. */
  #at = 0;
  #depth = 0;
  #lost = 0;

  /** How many events were skipped, because they are unfinished or too long. */
  get lost(): number {
    return this.#lost;
  }

  add(text: string): string[] {
    this.#rest += text;
    const events = this.#split();
    while (this.#rest.length > EVENT_LENGTH_MAX) {
      this.#giveUp();
      events.push(...this.#split());
    }
    return events;
  }

  /** The events after an unfinished one. To be called when there is no more text. */
  end(): string[] {
    const events: string[] = [];
    while (this.#depth > 0) {
      this.#giveUp();
      events.push(...this.#split());
    }
    return events;
  }

  #split(): string[] {
    const events: string[] = [];
    let begin = 0;
    for (let mark = this.#next(); mark !== undefined; mark = this.#next()) {
      if (mark.text.endsWith('/>')) continue;
      if (mark.text.startsWith('</')) {
        this.#depth = Math.max(0, this.#depth - 1);
        if (this.#depth === 0 && begin < mark.start) events.push(this.#rest.slice(begin, this.#at));
        if (this.#depth === 0) begin = this.#at;
      } else {
        if (this.#depth === 0) begin = mark.start;
        this.#depth += 1;
      }
    }
    if (this.#depth === 0) begin = this.#at;
    this.#rest = this.#rest.slice(begin);
    this.#at -= begin;
    return events;
  }

  /** The next start or end of an event; `undefined` if the text ends before it does. */
  #next(): { text: string; start: number } | undefined {
    for (;;) {
      MARKS.lastIndex = this.#at;
      const found = MARKS.exec(this.#rest);
      if (found === null) {
        // The last tag may be incomplete.
        this.#at = Math.max(this.#at, this.#rest.lastIndexOf('<'));
        return undefined;
      }
      const [text] = found;
      const close = text === '<![CDATA[' ? ']]>' : text === '<!--' ? '-->' : undefined;
      if (close === undefined) {
        this.#at = MARKS.lastIndex;
        return { text, start: found.index };
      }
      const closed = this.#rest.indexOf(close, MARKS.lastIndex);
      this.#at = closed === -1 ? found.index : closed + close.length;
      if (closed === -1) return undefined;
    }
  }

  /** Drops the start of the unfinished event. The next event is searched within its text. */
  #giveUp(): void {
    if (this.#depth > 0) this.#lost += 1;
    const next = this.#rest.indexOf('<Event', 1);
    this.#rest = next === -1 ? '' : this.#rest.slice(next);
    this.#at = 0;
    this.#depth = 0;
  }
}

/**
 * Parses the XML of one event. It never fails: events contain text of every program on the machine, and an event that
 * cannot be parsed would silently be missing from the log. General XML parsers refuse names such as `constructor`,
 * deep nesting and slightly wrong markup. Document types and custom entities are not processed.
 */
interface EventElement {
  /** The name without its prefix. */
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly EventElement[];
  /** The text directly in the element, without that of its children. */
  readonly text: string;
}

interface OpenElement extends EventElement {
  readonly children: OpenElement[];
  text: string;
}

/** No tag contains a `<`, so text with many of them is not searched again and again. */
const MARKUP =
  /<!\[CDATA\[([\s\S]*?)(?:\]\]>|$)|<!--[\s\S]*?(?:-->|$)|<\?[\s\S]*?(?:\?>|$)|<![^<>]*>|<\/([^\s<>]*)[^<>]*>|<([^\s<>/!?]+)((?:"[^"<]*"|'[^'<]*'|[^"'<>])*)>/g;
const ATTRIBUTE = /([^\s=/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g;

/** The outermost element; `undefined` for text without any. */
export function parseElements(xml: string): EventElement | undefined {
  const root = element('', '');
  const open = [root];
  let at = 0;
  for (const found of xml.matchAll(MARKUP)) {
    const inner = open.at(-1) ?? root;
    inner.text += unescapeText(xml.slice(at, found.index));
    at = found.index + found[0].length;
    const [, cdata, ended, started, attributes = ''] = found;
    if (cdata !== undefined) inner.text += cdata;
    else if (ended !== undefined) closeElement(open, localName(ended));
    else if (started !== undefined) {
      const isEmpty = attributes.endsWith('/');
      const child = element(localName(started), attributes);
      inner.children.push(child);
      if (!isEmpty) open.push(child);
    }
  }
  return root.children[0];
}

function element(name: string, attributes: string): OpenElement {
  const values = new Map<string, string>();
  for (const [, key = '', double, single] of attributes.matchAll(ATTRIBUTE)) {
    values.set(key, unescapeText(double ?? single ?? ''));
  }
  return { name, attributes: values, children: [], text: '' };
}

/** A closing tag without an opening one is ignored; one of an outer element closes the inner elements too. */
function closeElement(open: OpenElement[], name: string): void {
  for (let at = open.length - 1; at > 0; at -= 1) {
    if (open[at]?.name !== name) continue;
    open.length = at;
    return;
  }
}

const localName = (name: string) => name.slice(name.indexOf(':') + 1);

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

/** Unknown entities and invalid code points stay as they are. */
export function unescapeText(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));/g, (all, ...groups) => {
    const [decimal, hexadecimal, name] = groups as (string | undefined)[];
    if (name !== undefined) return ENTITIES[name] ?? all;
    const code = decimal === undefined ? Number.parseInt(hexadecimal ?? '', 16) : Number(decimal);
    return code > 0 && code <= 0x10_ff_ff ? String.fromCodePoint(code) : all;
  });
}

/** All children with this name. */
function childrenOf(parent: EventElement | undefined, name: string): readonly EventElement[] {
  return parent?.children.filter((child) => child.name === name) ?? [];
}

function childOf(parent: EventElement | undefined, name: string): EventElement | undefined {
  return parent?.children.find((child) => child.name === name);
}

/** The trimmed text of a child. */
function textOf(parent: EventElement | undefined, name: string): string {
  return childOf(parent, name)?.text.trim() ?? '';
}

/** The values in the element with their names, one per line. Elements may be nested to any depth. */
function describeElements(top: EventElement): string {
  const lines: string[] = [];
  const pending: EventElement[] = [top];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { name, attributes, text, children } = next;
    const value = text.trim();
    if (value !== '') lines.push(next === top ? value : `${name}: ${value}`);
    for (const [key, attribute] of attributes) {
      if (attribute !== '' && !/^xmlns(?::|$)/.test(key)) lines.push(`${key}: ${attribute}`);
    }
    for (let at = children.length - 1; at >= 0; at -= 1) {
      const child = children[at];
      if (child !== undefined) pending.push(child);
    }
  }
  return lines.join('\n');
}

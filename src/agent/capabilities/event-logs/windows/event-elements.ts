/**
 * Reads the XML of one event into elements. It never fails: events hold text of every program on the machine, and an
 * event that cannot be read would be missing from the log without a word. General XML parsers refuse names such as
 * `constructor`, deep nesting and markup that is slightly wrong. Document types and entities of the document itself are
 * not processed.
 */
export interface EventElement {
  /** The name without its prefix. */
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly EventElement[];
  /** The text directly within the element, without that of its children. */
  readonly text: string;
}

interface OpenElement extends EventElement {
  readonly children: OpenElement[];
  text: string;
}

/** No tag holds a `<`, so that text with many of them is not searched again and again. */
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

/** An end without a start is ignored, and one that fits an outer element ends the inner ones too. */
function closeElement(open: OpenElement[], name: string): void {
  for (let at = open.length - 1; at > 0; at -= 1) {
    if (open[at]?.name !== name) continue;
    open.length = at;
    return;
  }
}

const localName = (name: string) => name.slice(name.indexOf(':') + 1);

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

/** Unknown entities, and numbers that are no characters, stay as they are. */
export function unescapeText(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));/g, (all, ...groups) => {
    const [decimal, hexadecimal, name] = groups as (string | undefined)[];
    if (name !== undefined) return ENTITIES[name] ?? all;
    const code = decimal === undefined ? Number.parseInt(hexadecimal ?? '', 16) : Number(decimal);
    return code > 0 && code <= 0x10_ff_ff ? String.fromCodePoint(code) : all;
  });
}

/** The children with a name, which may come more than once. */
export function childrenOf(parent: EventElement | undefined, name: string): readonly EventElement[] {
  return parent?.children.filter((child) => child.name === name) ?? [];
}

export function childOf(parent: EventElement | undefined, name: string): EventElement | undefined {
  return parent?.children.find((child) => child.name === name);
}

/** The text of a child, without the white space around it. */
export function textOf(parent: EventElement | undefined, name: string): string {
  return childOf(parent, name)?.text.trim() ?? '';
}

/** The values within an element, one a line with their names. Elements may be nested to any depth. */
export function describeElements(top: EventElement): string {
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

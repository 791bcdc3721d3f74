import { LEVEL_NAMES, type LogRow } from './log-row.ts';

/** The shown entries as files. Each function takes the name of a device by its id. */
type NameOf = (deviceId: string) => string;

const timeText = ({ at }: LogRow): string => (at === 0 ? '' : new Date(at).toISOString());

/** The cells of a table, with its headings. */
export function tableOf(rows: readonly LogRow[], nameOf: NameOf): (string | number | null | undefined)[][] {
  const headings = ['Time (UTC)', 'Level', 'Source', 'Event ID', 'Message', 'Category', 'User', 'Computer'];
  return [
    [...headings, 'Device', 'Record'],
    ...rows.map((row) => [
      timeText(row),
      LEVEL_NAMES[row.level],
      row.source,
      row.eventId,
      row.message,
      row.category,
      row.user,
      row.computer,
      nameOf(row.deviceId),
      row.recordId,
    ]),
  ];
}

/** One JSON object in each line. */
export function jsonLinesOf(rows: readonly LogRow[], nameOf: NameOf): string {
  const lines = rows.map((row) => {
    const { deviceId, recordId, level, source, eventId, message, category, user, computer, rawXml, raw } =
      row;
    return JSON.stringify({
      timeCreated: timeText(row),
      level,
      source,
      eventId,
      message,
      category,
      user,
      computer,
      deviceId,
      device: nameOf(deviceId),
      recordId,
      rawXml,
      raw,
    });
  });
  return lines.map((line) => `${line}\n`).join('');
}

/** Characters that no XML document may hold, not even escaped. */
const FORBIDDEN =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\v\f\u000E-\u001F\uFFFE\uFFFF]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string =>
  text.replaceAll(FORBIDDEN, '\uFFFD').replaceAll(/[&<>"]/g, (sign) => ESCAPES[sign] ?? sign);

/** The XML of the devices if there is any; the other entries as elements with the same fields. */
export function xmlOf(rows: readonly LogRow[], nameOf: NameOf): string {
  const events = rows.map((row) => `  ${safeXml(row.rawXml) ?? elementOf(row, nameOf)}\n`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Events>\n${events.join('')}</Events>\n`;
}

/** A device may send anything: what could end the document early or declare entities is not taken as it is. */
function safeXml(xml: string | undefined): string | undefined {
  const text = xml?.replace(/^\s*<\?xml[^>]*\?>/, '').trim() ?? '';
  const isOne =
    /^<Event[\s>]/.test(text) && text.endsWith('</Event>') && text.indexOf('</Event>') === text.length - 8;
  return isOne && !/<!|<\/?Events\b/i.test(text) && text.search(FORBIDDEN) === -1 ? text : undefined;
}

function elementOf(row: LogRow, nameOf: NameOf): string {
  const fields: [name: string, value: string | number | null | undefined][] = [
    ['TimeCreated', timeText(row)],
    ['Level', LEVEL_NAMES[row.level]],
    ['Source', row.source],
    ['EventID', row.eventId],
    ['Message', row.message],
    ['Category', row.category],
    ['User', row.user],
    ['Computer', row.computer],
    ['Device', nameOf(row.deviceId)],
    ['RecordID', row.recordId],
    ['Raw', row.rawXml ?? row.raw],
  ];
  const elements = fields.map(([name, value]) =>
    value === null || value === undefined || value === ''
      ? ''
      : `<${name}>${escaped(String(value))}</${name}>`,
  );
  return `<Event>${elements.join('')}</Event>`;
}

/** Longer records are shown as they came. */
const LONGEST = 200_000;

/** JSON with indentation; `undefined` if the text is no JSON. */
export function prettyJson(text: string): string | undefined {
  if (text.length > LONGEST) return undefined;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return undefined;
  }
}

/** XML with one element in each line. It only adds white space between tags, so it cannot change what the record says. */
export function prettyXml(xml: string): string {
  if (xml.length > LONGEST) return xml;
  const pieces = xml.trim().match(/<[^>]*>|[^<]+/g) ?? [];
  const lines: string[] = [];
  let depth = 0;
  let isOpen = false;
  for (const piece of pieces) {
    const text = piece.startsWith('<') ? piece : piece.trim();
    if (text === '') continue;
    const last = lines.length - 1;
    if (!text.startsWith('<')) {
      if (isOpen) lines[last] += text;
      else lines.push(indent(depth) + text);
    } else if (text.startsWith('</')) {
      depth = Math.max(0, depth - 1);
      if (isOpen) lines[last] += text;
      else lines.push(indent(depth) + text);
      isOpen = false;
    } else {
      lines.push(indent(depth) + text);
      isOpen = !/^<[?!]|\/>$/.test(text);
      if (isOpen) depth++;
    }
  }
  return lines.join('\n');
}

const indent = (depth: number): string => '  '.repeat(Math.min(depth, 40));

interface TextPart {
  text: string;
  isMatch: boolean;
}

/** Divides a text at every place where one of the words stands, in any case. */
export function markMatches(text: string, words: readonly (string | undefined)[]): TextPart[] {
  const wanted = words.flatMap((word) => (word === undefined || word === '' ? [] : [word]));
  if (wanted.length === 0 || text === '') return [{ text, isMatch: false }];
  // The longest first, because the first alternative that fits is taken.
  const pattern = wanted
    .sort((a, b) => b.length - a.length)
    .map((word) => word.replaceAll(/[$()*+./?[\\\]^{|}-]/g, '\\$&'))
    .join('|');
  const parts: TextPart[] = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(new RegExp(pattern, 'giu'))) {
    if (index > from) parts.push({ text: text.slice(from, index), isMatch: false });
    parts.push({ text: found, isMatch: true });
    from = index + found.length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), isMatch: false });
  return parts;
}

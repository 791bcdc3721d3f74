import { z } from 'zod';
import type { Recorded } from '../../../support/recorded.ts';
import { parseEventXPath, type SystemValues } from './event-xpath.ts';
import type { StandInCall, StandInHandler } from './stand-ins.ts';

/**
 * `wevtutil` over recorded events (shared/real/windows/event-logs): it evaluates the XPath of a
 * query, and prints as Windows does. The messages are those of other recorded events with the same id
 * (shared/real/windows/event-logs/rendered), because messages need an installed provider.
 */

interface RecordedEvent {
  /** As wevtutil prints it without a message. */
  xml: string;
  system: SystemValues;
}

export type RecordedLogs = ReadonlyMap<string, readonly RecordedEvent[]>;

/** The recorded logs by name; each is the longest recording of that log. */
export function recordedLogs({ files, text }: Recorded, most = 1000): RecordedLogs {
  const logs = new Map<string, string[]>();
  for (const file of files.filter((name) => /^[^/]+\.xml$/.test(name))) {
    const lines = linesOf(text(file));
    const name = /<Channel>([^<]*)/.exec(lines[0] ?? '')?.[1];
    if (name !== undefined && lines.length > (logs.get(name)?.length ?? 0)) logs.set(name, lines);
  }
  return new Map(
    [...logs].map(([name, lines]) => [
      name,
      lines.slice(-most).map((line) => recordedEvent(asWindows(line))),
    ]),
  );
}

const linesOf = (content: string) => content.trim().split('\n');

/** The logs after one more event of this log has arrived, and the id of that. */
export function withNewEvent(logs: RecordedLogs, name: string): { logs: RecordedLogs; recordId: number } {
  const events = logs.get(name) ?? [];
  const ids = events.map(({ xml }) => Number(/<EventRecordID>(\d+)/.exec(xml)?.[1]));
  const recordId = Math.max(...ids) + 1;
  const xml = (events.at(-1)?.xml ?? '').replace(/<EventRecordID>\d+/, `<EventRecordID>${recordId}`);
  return { logs: new Map([...logs, [name, [...events, recordedEvent(xml)]]]), recordId };
}

/** The converter of the recordings writes double quotes, references for line breaks, and times without a zone. */
function asWindows(line: string): string {
  return line
    .replaceAll(/<[A-Za-z][^<>]*>/g, (tag) =>
      tag.replaceAll(/ [\w:]+=""/g, '').replaceAll(/="([^"']*)"/g, "='$1'"),
    )
    .replace(/SystemTime='(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.?(\d*)'/, (_all, day, time, fraction) => {
      return `SystemTime='${String(day)}T${String(time)}.${String(fraction).padEnd(7, '0')}Z'`;
    })
    .replaceAll('&#10;', '\n');
}

function recordedEvent(xml: string): RecordedEvent {
  const system = new Map<string, string>();
  const [, content = ''] = /<System>([^]*?)<\/System>/.exec(xml) ?? [];
  for (const [, name = '', attributes = '', text = ''] of content.matchAll(/<(\w+)([^<>]*)>([^<]*)/g)) {
    system.set(name, text);
    for (const [, key = '', value = ''] of attributes.matchAll(/([\w:]+)='([^']*)'/g)) {
      system.set(`${name}/@${key}`, value);
    }
  }
  return { xml, system };
}

const Rendered = z.object({ EventID: z.number(), Message: z.string() });

/** Messages by the id of their event. */
export function recordedMessages({ files, text }: Recorded): ReadonlyMap<string, string> {
  const messages = new Map<string, string>();
  for (const file of files.filter((name) => name.startsWith('rendered/'))) {
    for (const line of linesOf(text(file))) {
      const found = Rendered.safeParse(JSON.parse(line));
      if (found.success) messages.set(String(found.data.EventID), found.data.Message);
    }
  }
  return messages;
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

const utf16 = (text: string) => Buffer.from(text, 'utf16le');

/** What `wevtutil` prints about a log that does not exist. */
const NO_LOG = {
  code: 15_007,
  errors: 'The specified channel could not be found. Check channel configuration.\r\n',
};
const NO_RIGHTS = { code: 5, errors: 'Access is denied.\r\n' };

/**
 * @param closed  the logs that this user may not read
 */
export function wevtutil(
  logs: RecordedLogs,
  messages: ReadonlyMap<string, string>,
  closed: ReadonlySet<string> = new Set(),
): StandInHandler {
  const find = (name = '') => [...logs].find(([known]) => known.toLowerCase() === name.toLowerCase());
  return ({ args: [verb, name, ...options] }: StandInCall) => {
    const option = (start: string) => options.find((word) => word.startsWith(start))?.slice(start.length);
    if (verb === 'el') return { output: utf16(lines([...logs.keys()])) };
    if (verb === 'ep') {
      const all = [...logs.values()]
        .flat()
        .flatMap(({ xml }) => /<Provider Name='([^']*)'/.exec(xml)?.[1] ?? []);
      return { output: utf16(lines([...new Set(all)])) };
    }
    const log = find(name);
    if (log === undefined) return NO_LOG;
    if (closed.has(log[0])) return NO_RIGHTS;
    const [known, events] = log;
    if (verb === 'gl') {
      return { output: utf16(`name: ${known}\r\nenabled: true\r\nlogging:\r\n  maxSize: 20971520\r\n`) };
    }
    if (verb === 'gli') {
      const last = /SystemTime='([^']*)'/.exec(events.at(-1)?.xml ?? '')?.[1] ?? '';
      return { output: utf16(`lastWriteTime: ${last}\r\nnumberOfLogRecords: ${events.length}\r\n`) };
    }
    const matches = parseEventXPath(option('/q:') ?? '*');
    let found = events.filter(({ system }) => matches(system));
    if (option('/rd:') === 'true') found = found.reverse();
    const count = option('/c:');
    if (count !== undefined) found = found.slice(0, Number(count));
    const isRendered = option('/f:') === 'RenderedXml';
    const output = found.map(({ xml }) => `${isRendered ? rendered(xml, messages) : xml}\r\n`).join('');
    return { output: utf16(output) };
  };
}

const lines = (words: readonly string[]) => words.map((word) => `${word}\r\n`).join('');

function rendered(xml: string, messages: ReadonlyMap<string, string>): string {
  const message = messages.get(/<EventID[^>]*>(\d+)/.exec(xml)?.[1] ?? '');
  const info =
    message === undefined
      ? "<RenderingInfo Culture='en-US'></RenderingInfo>"
      : `<RenderingInfo Culture='en-US'><Message>${escaped(message)}</Message></RenderingInfo>`;
  return xml.replace(/<\/Event>\s*$/, `${info}</Event>`);
}

import { XMLParser } from 'fast-xml-parser';
import { z } from 'zod';
import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../reader.ts';

/** Converts an `<Event>` of `wevtutil qe /f:RenderedXml` to an entry. */

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  parseTagValue: false,
  parseAttributeValue: false,
  // Logs hold foreign text, whose document types and entities must not be processed.
  processEntities: true,
  isArray: (name) => name === 'Data',
});

const Text = z.union([
  z.string(),
  z.object({ '#text': z.string().optional() }).transform((node) => node['#text'] ?? ''),
]);
const Empty = z.literal('').transform(() => ({}));
const EventDocument = z.object({
  Event: z.object({
    System: z.object({
      Provider: z.object({ '@Name': z.string().optional(), '@EventSourceName': z.string().optional() }),
      EventID: Text,
      Level: Text.optional(),
      TimeCreated: z.object({ '@SystemTime': z.string() }),
      EventRecordID: Text,
      Channel: Text.optional(),
      Computer: Text.optional(),
      Security: z.union([z.object({ '@UserID': z.string().optional() }), Empty]).optional(),
    }),
    RenderingInfo: z
      .union([
        z.object({ Message: Text.optional(), Task: Text.optional() }),
        Empty.transform(() => undefined),
      ])
      .optional(),
    EventData: z
      .union([z.object({ Data: z.array(Text).optional() }), Empty.transform(() => undefined)])
      .optional(),
  }),
});

const LEVELS: readonly LogLevel[] = ['information', 'critical', 'error', 'warning', 'information', 'verbose'];

export function windowsLevels(levels: readonly LogLevel[]): number[] {
  return LEVELS.flatMap((level, number) => (levels.includes(level) ? [number] : []));
}

/** `undefined` for text that is not an event. */
export function parseEventXml(xml: string): LogEntry | undefined {
  let document: unknown;
  try {
    document = parser.parse(xml);
  } catch {
    return undefined;
  }
  const parsed = EventDocument.safeParse(document);
  if (!parsed.success) return undefined;
  const { System, RenderingInfo, EventData } = parsed.data.Event;
  const at = new Date(System.TimeCreated['@SystemTime']);
  const recordId = Number(System.EventRecordID);
  if (Number.isNaN(at.getTime()) || !Number.isSafeInteger(recordId)) return undefined;
  // Where the provider is not installed, Windows renders no message, so the data is shown.
  const message = RenderingInfo?.Message ?? (EventData?.Data ?? []).filter(Boolean).join('\n');
  return {
    recordId,
    timeCreated: at.toISOString(),
    level: LEVELS[Number(System.Level ?? 0)] ?? 'information',
    source: System.Provider['@Name'] ?? System.Provider['@EventSourceName'] ?? '',
    eventId: Number(System.EventID),
    message: cut(message),
    category: RenderingInfo?.Task ?? '',
    user: userOf(System.Security),
    computer: System.Computer ?? '',
    rawXml: cut(xml.trim()),
  };
}

/** For an event without a user, the element has no attribute. */
function userOf(security: { '@UserID'?: string | undefined } | object | undefined): string | null {
  return security !== undefined && '@UserID' in security ? (security['@UserID'] ?? null) : null;
}

const EVENT_END = '</Event>';
/** The largest text without an end that may still become an event; real events have some kilobytes. */
const EVENT_LENGTH_MAX = 2_000_000;

/** Splits text into its `<Event>…</Event>` elements, which wevtutil prints without a common root. */
export class EventSplitter {
  #rest = '';

  add(text: string): string[] {
    this.#rest += text;
    const events: string[] = [];
    for (;;) {
      const end = this.#rest.indexOf(EVENT_END);
      if (end === -1) break;
      const piece = this.#rest.slice(0, end + EVENT_END.length);
      this.#rest = this.#rest.slice(end + EVENT_END.length);
      const start = piece.indexOf('<Event');
      if (start !== -1) events.push(piece.slice(start));
    }
    if (this.#rest.length > EVENT_LENGTH_MAX) this.#rest = '';
    return events;
  }
}

/** `wevtutil /uni:true` prints UTF-16, in some builds without a byte order mark, so the first bytes are inspected. */
export function windowsEncoding(first: Buffer): BufferEncoding {
  return (first[0] === 0xff && first[1] === 0xfe) || (first.length > 1 && first[1] === 0)
    ? 'utf16le'
    : 'utf8';
}

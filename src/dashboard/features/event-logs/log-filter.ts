import type { LogLevel } from '../../../protocol/index.ts';
import { LEVELS, type LogRow } from './log-row.ts';
import type { LogSearch } from './log-search.ts';
import { endsOf, shorterPreset } from './log-time.ts';

/** The conditions that a device applies while it reads, as the protocol takes them. */
export interface DeviceConditions {
  level?: LogLevel[];
  source?: string;
  eventId?: number;
  text?: string;
  startTime?: string;
  endTime?: string;
}

export const FIELDS = ['level', 'source', 'eventId', 'user', 'computer', 'category', 'message'] as const;
export type Field = (typeof FIELDS)[number];

export const FIELD_NAMES: Record<Field, string> = {
  level: 'Level',
  source: 'Source',
  eventId: 'Event ID',
  user: 'User',
  computer: 'Computer',
  category: 'Category',
  message: 'Message',
};

export const valueOf = (row: LogRow, field: Field): string => row[field] ?? '';

/** A value longer than this would make links that programs cut. */
const VALUE_MAX = 500;
const codeOf = (field: Field, value: string): string => `${field}:${value.slice(0, VALUE_MAX)}`;

export interface FieldCondition {
  code: string;
  field: Field;
  value: string;
}

/** Codes such as `source:sshd` of an address; those of unknown fields are left out. */
export function fieldConditions(codes: readonly string[] = []): FieldCondition[] {
  return codes.flatMap((code) => {
    const colon = code.indexOf(':');
    const field = FIELDS.find((name) => name === code.slice(0, colon));
    return field === undefined ? [] : [{ code, field, value: code.slice(colon + 1) }];
  });
}

const meets = (row: LogRow, { field, value }: FieldCondition): boolean =>
  valueOf(row, field).slice(0, VALUE_MAX).toLowerCase() === value.toLowerCase();

/** The conditions that the device applies. @param now  for times that move with the clock */
export function deviceConditions(search: LogSearch, now: number): DeviceConditions {
  const { level, source, text } = search;
  const one = onlyEventId(parseEventIds(search.ids ?? '') ?? []);
  return {
    ...(level === undefined || level.length === LEVELS.length ? {} : { level: [...level] }),
    ...(source === undefined ? {} : { source }),
    ...(one === undefined ? {} : { eventId: one }),
    ...(text === undefined ? {} : { text }),
    ...endsOf(search, now),
  };
}

/** The conditions that no device can apply, which are applied here instead; `undefined` if there are none. */
export function localMatcher(search: LogSearch): ((row: LogRow) => boolean) | undefined {
  const ids = parseEventIds(search.ids ?? '') ?? [];
  const only = fieldConditions(search.only);
  const not = fieldConditions(search.not);
  const isListed = ids.length > 0 && onlyEventId(ids) === undefined;
  if (!isListed && only.length === 0 && not.length === 0) return undefined;
  return (row) =>
    (!isListed || matchesEventIds(ids, row.eventId)) &&
    only.every((condition) => meets(row, condition)) &&
    !not.some((condition) => meets(row, condition));
}

/** All of a filter but its times, for rows that no device has filtered, such as stored events. */
export function matcherOf(search: LogSearch): (row: LogRow) => boolean {
  const { level, source, eventId, text } = deviceConditions(search, 0);
  const matchesHere = localMatcher(search);
  const part = text?.toLowerCase();
  return (row) =>
    (level === undefined || level.includes(row.level)) &&
    (source === undefined || row.source.toLowerCase() === source.toLowerCase()) &&
    (eventId === undefined || (row.eventId !== '' && Number(row.eventId) === eventId)) &&
    (part === undefined || row.message.toLowerCase().includes(part)) &&
    (matchesHere === undefined || matchesHere(row));
}

/** The change of the filter for "only entries with this value". */
export function withField(search: LogSearch, field: Field, value: string): Partial<LogSearch> {
  if (field === 'level') return { level: LEVELS.filter((level) => level === value) };
  if (field === 'source' && value !== '') return { source: value };
  if (field === 'eventId' && /^\d{1,9}$/.test(value)) return { ids: value };
  // The device looks for a part of the message, and a part has to fit into one line.
  if (field === 'message') return { text: value.split('\n', 1)[0]?.slice(0, VALUE_MAX) || undefined };
  return { only: added(search.only, codeOf(field, value)) };
}

/** The change of the filter for "no entries with this value". */
export const withoutField = (search: LogSearch, field: Field, value: string): Partial<LogSearch> => ({
  not: added(search.not, codeOf(field, value)),
});

const MAX_CODES = 50;
const added = (codes: readonly string[] = [], code: string): string[] =>
  codes.includes(code) ? [...codes] : [...codes, code].slice(-MAX_CODES);

export const removed = (codes: readonly string[] | undefined, code: string): string[] | undefined => {
  const left = (codes ?? []).filter((each) => each !== code);
  return left.length === 0 ? undefined : left;
};

interface Narrowing {
  label: string;
  change: Partial<LogSearch>;
}

const GRAVE: LogLevel[] = ['critical', 'error'];

/** Changes that make a query quicker, for one that took too long. */
export function narrowings(search: LogSearch): Narrowing[] {
  const found: Narrowing[] = [];
  const shorter = search.from === undefined && search.to === undefined ? shorterPreset(search) : undefined;
  if (shorter !== undefined) found.push({ label: shorter.label, change: { range: shorter.value } });
  if (search.level === undefined) found.push({ label: 'Critical and error only', change: { level: GRAVE } });
  // A device that looks for a text reads until it has found a page of it.
  if (search.text !== undefined) found.push({ label: 'Without the text', change: { text: undefined } });
  return found;
}

/** A list of event ids and ranges as a person writes it: `4624, 4625, 7000-7040`. Ends are included. */
type EventIds = readonly (readonly [from: number, to: number])[];

const PART = /^(\d{1,9})(?:\s*-\s*(\d{1,9}))?$/;

/** @returns `undefined` if the text is no such list; an empty list if it is empty. */
export function parseEventIds(text: string): EventIds | undefined {
  const ranges: (readonly [number, number])[] = [];
  for (const part of text.split(/[,;\n]/)) {
    const trimmed = part.trim();
    if (trimmed === '') continue;
    const [, first, last = first] = PART.exec(trimmed) ?? [];
    if (first === undefined || last === undefined) return undefined;
    const [from, to] = [Number(first), Number(last)];
    if (from > to) return undefined;
    ranges.push([from, to]);
  }
  return ranges;
}

/** The one id of the list, which a device can filter by; `undefined` for any other list. */
export function onlyEventId(ids: EventIds): number | undefined {
  const [first, ...others] = ids;
  return first !== undefined && others.length === 0 && first[0] === first[1] ? first[0] : undefined;
}

export function matchesEventIds(ids: EventIds, eventId: string): boolean {
  const id = Number(eventId);
  return eventId !== '' && ids.some(([from, to]) => id >= from && id <= to);
}

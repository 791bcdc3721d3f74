import type { LogLevel } from '../../../../protocol/index.ts';
import { matchesEventIds, onlyEventId, parseEventIds } from './event-ids.ts';
import { LEVELS, type LogRow } from './log-row.ts';
import type { LogSearch } from './log-search.ts';
import { endsOf } from './time-range.ts';

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

/** What the device applies. @param now  for times that move with the clock */
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

/** What no device can apply, and what is therefore applied here; `undefined` where that is nothing. */
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

import type { MatchableDevice } from '../../../src/features/conditions/index.ts';
import { CUSTOM_KINDS } from './rule-fleet.ts';

/**
 * What rules mean, said in the plainest way, from the specification and docs/decisions/filters.md: slow, recursive, and
 * without a line of the code that it judges.
 */

export interface PlainCondition {
  field: string;
  operator: string;
  value?: unknown;
}
export interface PlainGroup {
  operator: 'AND' | 'OR';
  conditions: (PlainCondition | PlainGroup)[];
}

export function evaluate(rule: PlainCondition | PlainGroup, device: MatchableDevice, now: number): boolean {
  if ('conditions' in rule) {
    const answers = rule.conditions.map((one) => evaluate(one, device, now));
    return rule.operator === 'AND' ? answers.every(Boolean) : answers.some(Boolean);
  }
  return holds(rule, seen(rule.field, device, now), now);
}

const DAY = 86_400_000;
const timeKinds = new Set(['enrolledAt', 'lastSeenAt']);

function seen(field: string, device: MatchableDevice, now: number): unknown {
  if (field === 'groupId') return device.groupIds.length === 0 ? null : device.groupIds;
  if (field === 'daysSinceLastSeen') {
    return device.lastSeenAt === null ? null : (now - device.lastSeenAt) / DAY;
  }
  if (field === 'daysSinceEnrolled') return (now - device.enrolledAt) / DAY;
  if (field.startsWith('software.')) return device.software;
  if (field.startsWith('custom.')) {
    const key = field.slice(7);
    return customValue(
      Object.entries(device.customFields).find(([name]) => name === key)?.[1],
      CUSTOM_KINDS.get(key) ?? 'string',
    );
  }
  let value: unknown = device;
  const average = /^metrics\.avg\.(.+)$/.exec(field)?.[1];
  const steps = average === undefined ? field.split('.') : ['averages', average];
  for (const step of steps) value = (value as Record<string, unknown> | null)?.[step];
  return value ?? null;
}

function customValue(value: unknown, kind: string): unknown {
  switch (kind) {
    case 'string':
      if (typeof value === 'number') return plainNumber(value);
      return typeof value === 'string' ? value : typeof value === 'boolean' ? `${value}` : null;
    case 'number':
      return typeof value === 'number' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return typeof value === 'string' ? (instant(value)?.[0] ?? null) : null;
    default:
      return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : null;
  }
}

function plainNumber(value: number): string {
  if (Number.isInteger(value)) return BigInt(value).toString();
  return Math.abs(value) > 1e-6 ? String(value) : value.toFixed(7);
}

/** First and last millisecond, of a day that is in the calendar. */
function instant(text: string): [number, number] | undefined {
  const parts =
    /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?:Z|([+-])(\d\d):(\d\d)))?$/.exec(
      text,
    );
  if (parts === null) return undefined;
  const [
    ,
    year,
    month,
    day,
    hour = '0',
    minute = '0',
    second = '0',
    fraction = '',
    sign,
    zoneHour = '0',
    zoneMinute = '0',
  ] = parts;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  const isOfCalendar = date.getUTCMonth() + 1 === Number(month) && date.getUTCDate() === Number(day);
  if (Number(year) === 0 || !isOfCalendar) return undefined;
  const isOfClock = Number(hour) <= 23 && Number(minute) <= 59 && Number(second) <= 59;
  if (!isOfClock || Number(zoneHour) > 14 || Number(zoneMinute) > 59) return undefined;
  const offset = (Number(zoneHour) * 60 + Number(zoneMinute)) * (sign === '-' ? -1 : 1);
  const from =
    date.getTime() +
    ((Number(hour) * 60 + Number(minute) - offset) * 60 + Number(second)) * 1000 +
    Number(fraction.slice(0, 3).padEnd(3, '0'));
  return [from, text.includes('T') ? from : from + DAY - 1];
}

/** Character by character, as Postgres does; Unicode 17 is too new for it. */
const lower = (text: string) =>
  Array.from(text, (letter) => (letter === 'İ' ? 'i' : letter.toLowerCase())).join('');

function isTime(field: string): boolean {
  return timeKinds.has(field) || (field.startsWith('custom.') && CUSTOM_KINDS.get(field.slice(7)) === 'date');
}

/** What is asked is in NFC, as names are stored. */
const asked = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(asked) : typeof value === 'string' ? value.normalize('NFC') : value;

function holds({ field, operator, value: written }: PlainCondition, found: unknown, now: number): boolean {
  const value = asked(written);
  if (field === 'software.notInstalled') {
    return !some(found, (name) => lower(name).includes(lower(value as string)));
  }
  switch (operator) {
    case 'isNull':
      return found === null;
    case 'isNotNull':
      return found !== null;
    case 'isEmpty':
      return found === null || (found as string[]).length === 0;
    case 'isNotEmpty':
      return found !== null && (found as string[]).length > 0;
    case 'notEquals':
      return !holds({ field, operator: 'equals', value }, found, now);
    case 'notContains':
      return !holds({ field, operator: 'contains', value }, found, now);
    case 'notIn':
      return !holds({ field, operator: 'in', value }, found, now);
    case 'notWithinLast':
      return !holds({ field, operator: 'withinLast', value }, found, now);
    default:
  }
  if (found === null) return false;
  if (isTime(field)) return timeHolds(operator, value, found as number, now);
  switch (operator) {
    case 'equals':
      return Array.isArray(found) ? found.includes((value as string).toLowerCase()) : found === value;
    case 'in':
      return (value as unknown[]).some((one) => (Array.isArray(found) ? found.includes(one) : found === one));
    case 'contains':
      return some(found, (text) => lower(text).includes(lower(value as string)));
    case 'startsWith':
      return lower(found as string).startsWith(lower(value as string));
    case 'endsWith':
      return lower(found as string).endsWith(lower(value as string));
    case 'matches':
      return new RegExp(value as string, 'u').test(found as string);
    case 'hasAny':
      return (value as string[]).some((one) => (found as string[]).includes(one));
    case 'hasAll':
      return (value as string[]).every((one) => (found as string[]).includes(one));
    case 'greaterThan':
      return (found as number) > (value as number);
    case 'greaterThanOrEquals':
      return (found as number) >= (value as number);
    case 'lessThan':
      return (found as number) < (value as number);
    case 'lessThanOrEquals':
      return (found as number) <= (value as number);
    case 'between': {
      const { from, to } = value as { from: number; to: number };
      return (found as number) >= from && (found as number) <= to;
    }
    default:
      throw new Error(operator);
  }
}

function timeHolds(operator: string, value: unknown, found: number, now: number): boolean {
  if (operator === 'withinLast') {
    const { amount, unit } = value as { amount: number; unit: string };
    return found >= backFrom(now, amount, unit);
  }
  if (operator === 'between') {
    const { from, to } = value as { from: string; to: string };
    return found >= (instant(from)?.[0] ?? NaN) && found <= (instant(to)?.[1] ?? NaN);
  }
  const [from, to] = instant(value as string) ?? [NaN, NaN];
  switch (operator) {
    case 'equals':
      return found >= from && found <= to;
    case 'before':
    case 'lessThan':
      return found < from;
    case 'after':
    case 'greaterThan':
      return found > to;
    case 'greaterThanOrEquals':
      return found >= from;
    case 'lessThanOrEquals':
      return found <= to;
    default:
      throw new Error(operator);
  }
}

function backFrom(now: number, amount: number, unit: string): number {
  const minutes: Record<string, number> = { minutes: 1, hours: 60, days: 1440, weeks: 10_080 };
  if (unit !== 'months') return now - amount * (minutes[unit] ?? NaN) * 60_000;
  const date = new Date(now);
  const wanted = date.getUTCFullYear() * 12 + date.getUTCMonth() - amount;
  // Day by day until it is in the month that is meant.
  for (let day = date.getUTCDate(); ; day--) {
    const then = new Date(now);
    then.setUTCFullYear(Math.floor(wanted / 12), ((wanted % 12) + 12) % 12, day);
    if (Number.isNaN(then.getTime())) return -Infinity;
    if (then.getUTCFullYear() * 12 + then.getUTCMonth() === wanted) return then.getTime();
  }
}

function some(found: unknown, test: (text: string) => boolean): boolean {
  return typeof found === 'string' ? test(found) : (found as string[]).some(test);
}

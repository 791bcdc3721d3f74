import fc from 'fast-check';
import type { PlainCondition, PlainGroup } from './referee.ts';
import { CUSTOM_KEYS, CUSTOM_KINDS, GROUPS, NUMBERS, ORGS, SITES, TIMES, word } from './rule-fleet.ts';

/** Every rule that people can write, of values that are in the fleet of `rule-fleet.ts`. */

const someWords = fc.uniqueArray(word, { minLength: 1, maxLength: 4 });
const bare = (...operators: string[]) => fc.record({ operator: fc.constantFrom(...operators) });
const asks = (value: fc.Arbitrary<unknown>, ...operators: string[]) =>
  fc.record({ operator: fc.constantFrom(...operators), value });
const NULLS = bare('isNull', 'isNotNull');

/** What JavaScript means by it as well. */
const pattern = fc.constantFrom(
  '^ab',
  '01$',
  'a|b',
  '[a-z]+',
  '^[^a-z]*$',
  'a.b',
  '^.$',
  'A{1,2}',
  '(?:a|A)b',
  'é',
  '^\\S+$',
  '\\d',
  '[%_]',
  '\\\\',
  '\\bab\\b',
  '\\Bb',
  'line.break',
  'line\\sbreak',
  '^$',
  '',
  '😀',
  '^.{2}$',
  '(ab)*',
  '[\\w-]+1',
  '\\x41',
  '\\u00e9',
  '.*',
  '^(?:a||b)$',
  '[\u{10000}-\u{10FFFF}]',
  '[^\\d]$',
  '(a+)+$',
  'x{0}',
  'a??b',
);

const day = fc.constantFrom(...TIMES).map((ms) => new Date(ms).toISOString().slice(0, 10));
const instant = fc.oneof(
  day,
  fc.constantFrom(...TIMES).map((ms) => new Date(ms).toISOString()),
  fc.constantFrom(
    '2026-03-31T14:00:00+02:00',
    '2026-03-31T12:00Z',
    '2026-03-31T12:00:00.0009Z',
    '0001-01-01',
    '9999-12-31',
  ),
);
const number = fc.constantFrom(...NUMBERS);
const span = <T>(value: fc.Arbitrary<T>, isOrdered: (a: T, b: T) => boolean) =>
  fc.tuple(value, value).map(([a, b]) => (isOrdered(a, b) ? { from: a, to: b } : { from: b, to: a }));

const STRING = fc.oneof(
  asks(word, 'equals', 'notEquals', 'contains', 'notContains', 'startsWith', 'endsWith'),
  asks(pattern, 'matches'),
  asks(someWords, 'in', 'notIn'),
  NULLS,
);
const NUMBER = fc.oneof(
  asks(number, 'equals', 'notEquals', 'greaterThan', 'greaterThanOrEquals', 'lessThan', 'lessThanOrEquals'),
  asks(
    span(number, (a, b) => a <= b),
    'between',
  ),
  NULLS,
);
const DATETIME = fc.oneof(
  asks(
    instant,
    'equals',
    'notEquals',
    'before',
    'after',
    'greaterThan',
    'greaterThanOrEquals',
    'lessThan',
    'lessThanOrEquals',
  ),
  asks(
    span(instant, (a, b) => Date.parse(a) <= Date.parse(b)),
    'between',
  ),
  asks(
    fc.record({
      amount: fc.constantFrom(1, 2, 7, 60, 1000, 1_000_000),
      unit: fc.constantFrom('minutes', 'hours', 'days', 'weeks', 'months'),
    }),
    'withinLast',
    'notWithinLast',
  ),
  NULLS,
);
const LIST = fc.oneof(
  asks(someWords, 'hasAny', 'hasAll'),
  asks(word, 'contains'),
  bare('isEmpty', 'isNotEmpty'),
  NULLS,
);
const oneOf = (...options: string[]) =>
  fc.oneof(
    asks(fc.constantFrom(...options), 'equals', 'notEquals'),
    asks(fc.uniqueArray(fc.constantFrom(...options), { minLength: 1 }), 'in', 'notIn'),
    NULLS,
  );
const id = (...ids: string[]) =>
  fc.oneof(
    asks(fc.constantFrom(...ids), 'equals'),
    asks(fc.uniqueArray(fc.constantFrom(...ids), { minLength: 1 }), 'in'),
    NULLS,
  );
const BOOLEAN = fc.oneof(asks(fc.boolean(), 'equals', 'notEquals'), NULLS);

const of = (ask: fc.Arbitrary<object>, ...fields: string[]) =>
  fc.tuple(fc.constantFrom(...fields), ask).map(([field, asked]) => ({ field, ...asked }) as PlainCondition);

const customs: Record<string, fc.Arbitrary<object>> = {
  string: STRING,
  number: NUMBER,
  boolean: BOOLEAN,
  date: DATETIME,
  list: LIST,
};
export const condition: fc.Arbitrary<PlainCondition> = fc.oneof(
  of(STRING, 'hostname', 'displayName', 'agentVersion', 'osVersion', 'osBuild'),
  of(
    STRING,
    ...['manufacturer', 'model', 'serialNumber', 'cpuModel', 'gpuModel'].map((name) => `hardware.${name}`),
  ),
  of(
    fc.oneof(STRING, asks(fc.constantFrom('10.0.0.1', '2001:db8', 'AA:'), 'equals', 'contains')),
    'network.ipAddress',
    'network.publicIp',
    'network.macAddress',
  ),
  of(oneOf('online', 'offline', 'maintenance', 'pending', 'decommissioned'), 'status'),
  of(oneOf('windows', 'macos', 'linux'), 'osType'),
  of(oneOf('x64', 'x86', 'arm64'), 'architecture'),
  of(DATETIME, 'enrolledAt', 'lastSeenAt'),
  of(LIST, 'tags'),
  of(NUMBER, 'hardware.cpuCores', 'hardware.ramTotalMb', 'hardware.diskTotalGb'),
  of(NUMBER, 'metrics.cpuPercent', 'metrics.ramPercent', 'metrics.diskPercent'),
  of(NUMBER, 'metrics.avg.cpuPercent.1h', 'metrics.avg.diskPercent.7d', 'metrics.avg.load.1d'),
  of(NUMBER, 'daysSinceLastSeen', 'daysSinceEnrolled'),
  of(
    asks(fc.constantFrom('fire', 'FIREFOX', '100%', 'ÜNÏ', 'none', '_', ''), 'contains', 'notContains'),
    'software.installed',
  ),
  of(asks(fc.constantFrom('fire', 'chrome', '100%', 'ÜNÏ', 'none'), 'contains'), 'software.notInstalled'),
  of(id(...ORGS), 'orgId'),
  of(id(...SITES), 'siteId'),
  of(id(...GROUPS), 'groupId'),
  fc
    .constantFrom(...CUSTOM_KEYS)
    .chain((key) => of(customs[CUSTOM_KINDS.get(key) ?? 'string'] ?? STRING, `custom.${key}`)),
);

export const { group } = fc.letrec<{ group: PlainGroup; item: PlainCondition | PlainGroup }>((tie) => ({
  group: fc.record({
    operator: fc.constantFrom('AND', 'OR'),
    conditions: fc.array(tie('item'), { minLength: 1, maxLength: 4 }),
  }),
  item: fc.oneof({ maxDepth: 4, withCrossShrink: true }, condition, tie('group')),
}));

export const alone = (one: PlainCondition): PlainGroup => ({ operator: 'AND', conditions: [one] });

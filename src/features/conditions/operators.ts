import { inNfc } from '../../nfc.ts';
import type { Field, Kind } from './field.ts';
import { agoOf, elapsed, spanOf, type Span, UNITS, type Bound } from './instants.ts';
import { PatternFault } from './pattern-cost.ts';
import { readPattern } from './pattern.ts';
import type { Test } from './rule.ts';
import { shortened } from '../../protocol/index.ts';

/** The operators of each kind of field, and how they turn their value into a test. */

/** Reports a fault of the value, or of a part within it. */
type Complain = (message: string, ...within: readonly (string | number)[]) => void;

/** Returns undefined after it has reported a fault. */
type ReadValue = (value: unknown, complain: Complain, field: Field) => Test | undefined;

export interface Operator {
  takesValue: boolean;
  read: ReadValue;
}

const without = (test: Test): Operator => ({ takesValue: false, read: () => test });
const taking = (read: ReadValue): Operator => ({ takesValue: true, read });

const isUnstorable = (text: string) => text.includes('\0') || !text.isWellFormed();

function asText(
  value: unknown,
  complain: Complain,
  ...within: readonly (string | number)[]
): string | undefined {
  if (typeof value !== 'string') complain('must be a string', ...within);
  else if (isUnstorable(value)) {
    complain('must not contain NUL characters or unpaired surrogates', ...within);
  } else return inNfc(value);
  return undefined;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A value that is valid for the field. */
function asOption(
  value: unknown,
  complain: Complain,
  field: Field,
  ...within: readonly (string | number)[]
): string | undefined {
  if (field.kind === 'boolean') {
    if (typeof value === 'boolean') return String(value);
    complain('must be true or false', ...within);
    return undefined;
  }
  const text = asText(value, complain, ...within);
  if (text === undefined) return undefined;
  if (field.kind === 'uuid' || field.kind === 'uuids') {
    if (UUID.test(text)) return text.toLowerCase();
    complain('must be a UUID', ...within);
    return undefined;
  }
  if (field.kind === 'enum' && field.options?.includes(text) === false) {
    complain(`must be one of ${field.options.join(', ')}`, ...within);
    return undefined;
  }
  return text;
}

function asList(value: unknown, complain: Complain, field: Field): string[] | undefined {
  if (!Array.isArray(value) || value.length === 0) {
    complain('must be a non-empty list of strings');
    return undefined;
  }
  const items = value.map((one: unknown, index) => asOption(one, complain, field, index));
  const good = items.filter((one) => one !== undefined);
  return good.length < items.length ? undefined : [...new Set(good)];
}

const one = (negated: boolean) =>
  taking((value, complain, field) => {
    const option = asOption(value, complain, field);
    return option === undefined ? undefined : { is: 'among', values: [option], negated };
  });

const anyOf = (negated: boolean) =>
  taking((value, complain, field) => {
    const values = asList(value, complain, field);
    return values === undefined ? undefined : { is: 'among', values, negated };
  });

const like = (part: 'anywhere' | 'start' | 'end', negated = false) =>
  taking((value, complain) => {
    const text = asText(value, complain);
    return text === undefined ? undefined : { is: 'like', part, text, negated };
  });

const matching = taking((value, complain) => {
  const source = asText(value, complain);
  if (source === undefined) return undefined;
  try {
    return { is: 'matching', pattern: readPattern(source) };
  } catch (error) {
    if (!(error instanceof PatternFault)) throw error;
    complain(error.message);
    return undefined;
  }
});

const overlapping = taking((value, complain, field) => {
  const values = asList(value, complain, field);
  return values === undefined ? undefined : { is: 'overlapping', values };
});
const including = taking((value, complain, field) => {
  const values = asList(value, complain, field);
  return values === undefined ? undefined : { is: 'including', values };
});

type Range = { low?: Bound; high?: Bound };
const within = ({ low, high }: Range, negated = false): Test => ({ is: 'within', low, high, negated });

function asNumber(value: unknown, complain: Complain, ...inside: readonly string[]): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  complain('must be a number', ...inside);
  return undefined;
}

function asSpan(value: unknown, complain: Complain, ...inside: readonly string[]): Span | undefined {
  const span = typeof value === 'string' ? spanOf(value) : undefined;
  if (span === undefined) {
    complain('must be a day or a time in ISO 8601, such as 2026-01-31 or 2026-01-31T08:00:00Z', ...inside);
  }
  return span;
}

/** An operator that compares with a single value. */
const compared = <T>(
  read: (value: unknown, complain: Complain) => T | undefined,
  range: (thing: T) => Range,
  negated = false,
) =>
  taking((value, complain) => {
    const thing = read(value, complain);
    return thing === undefined ? undefined : within(range(thing), negated);
  });

const between = <T>(
  read: (value: unknown, complain: Complain, inside: string) => T | undefined,
  isReversed: (from: T, to: T) => boolean,
  range: (from: T, to: T) => Range,
) =>
  taking((value, complain) => {
    const ends = asObject(value, ['from', 'to'], complain);
    if (ends === undefined) return undefined;
    const from = read(ends['from'], complain, 'from');
    const to = read(ends['to'], complain, 'to');
    if (from === undefined || to === undefined) return undefined;
    if (!isReversed(from, to)) return within(range(from, to));
    complain('must not be greater than to', 'from');
    return undefined;
  });

/** An object with exactly these keys. */
function asObject<K extends string>(
  value: unknown,
  keys: readonly K[],
  complain: Complain,
): Record<K, unknown> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    complain(`must be an object { ${keys.join(', ')} }`);
    return undefined;
  }
  const missing = keys.filter((key) => !Object.hasOwn(value, key));
  const unknown = Object.keys(value).filter((key) => !keys.some((known) => known === key));
  for (const key of missing) complain('is required', key);
  for (const key of unknown.slice(0, 10)) complain('is not known here', shortened(key, 100));
  return missing.length + unknown.length > 0 ? undefined : (value as Record<K, unknown>);
}

const AMOUNT_MAX = 1_000_000;

const ago = (negated: boolean) =>
  taking((value, complain) => {
    const given = asObject(value, ['amount', 'unit'], complain);
    if (given === undefined) return undefined;
    const { amount } = given;
    const unit = UNITS.find((known) => known === given.unit);
    const isAmount =
      typeof amount === 'number' && Number.isInteger(amount) && amount >= 1 && amount <= AMOUNT_MAX;
    if (!isAmount) complain(`must be a whole number from 1 to ${AMOUNT_MAX}`, 'amount');
    if (unit === undefined) complain(`must be one of ${UNITS.join(', ')}`, 'unit');
    if (!isAmount || unit === undefined) return undefined;
    return within({ low: { before: agoOf(amount, unit) } }, negated);
  });

const NULLS = {
  isNull: without({ is: 'null', negated: false }),
  isNotNull: without({ is: 'null', negated: true }),
};

const exactly = (value: number): Range => ({ low: { at: value }, high: { at: value } });
const NUMBER: Operators = {
  equals: compared(asNumber, exactly),
  notEquals: compared(asNumber, exactly, true),
  greaterThan: compared(asNumber, (value) => ({ low: { at: value, open: true } })),
  greaterThanOrEquals: compared(asNumber, (value) => ({ low: { at: value } })),
  lessThan: compared(asNumber, (value) => ({ high: { at: value, open: true } })),
  lessThanOrEquals: compared(asNumber, (value) => ({ high: { at: value } })),
  between: between(
    asNumber,
    (from, to) => from > to,
    (from, to) => ({ low: { at: from }, high: { at: to } }),
  ),
  ...NULLS,
};

const whole = ({ from, to }: Span): Range => ({ low: { at: from }, high: { at: to } });
const after = ({ to }: Span): Range => ({ low: { at: to + 1 } });
const before = ({ from }: Span): Range => ({ high: { at: from - 1 } });
const DATETIME: Operators = {
  equals: compared(asSpan, whole),
  notEquals: compared(asSpan, whole, true),
  before: compared(asSpan, before),
  after: compared(asSpan, after),
  greaterThan: compared(asSpan, after),
  greaterThanOrEquals: compared(asSpan, ({ from }) => ({ low: { at: from } })),
  lessThan: compared(asSpan, before),
  lessThanOrEquals: compared(asSpan, ({ to }) => ({ high: { at: to } })),
  between: between(
    asSpan,
    (from, to) => from.from > to.to,
    (from, to) => ({ low: { at: from.from }, high: { at: to.to } }),
  ),
  withinLast: ago(false),
  notWithinLast: ago(true),
  ...NULLS,
};

/** The range of times that are this many days ago. */
const daysAgo = (days: number): Range => {
  const { atLeast, atMost } = elapsed(days);
  return { low: { before: atMost }, high: { before: atLeast } };
};
const DAYS: Operators = {
  equals: compared(asNumber, daysAgo),
  notEquals: compared(asNumber, daysAgo, true),
  greaterThan: compared(asNumber, (days) => ({ high: { before: elapsed(days).more } })),
  greaterThanOrEquals: compared(asNumber, (days) => ({ high: { before: elapsed(days).atLeast } })),
  lessThan: compared(asNumber, (days) => ({ low: { before: elapsed(days).less } })),
  lessThanOrEquals: compared(asNumber, (days) => ({ low: { before: elapsed(days).atMost } })),
  between: between(
    asNumber,
    (from, to) => from > to,
    (from, to) => ({ low: { before: elapsed(to).atMost }, high: { before: elapsed(from).atLeast } }),
  ),
  ...NULLS,
};

const EQUAL: Operators = { equals: one(false), notEquals: one(true) };
const LISTED: Operators = { in: anyOf(false), notIn: anyOf(true) };

type Operators = Readonly<Record<string, Operator>>;

const BY_KIND: Record<Kind, ReadonlyMap<string, Operator>> = {
  string: table({
    ...EQUAL,
    contains: like('anywhere'),
    notContains: like('anywhere', true),
    startsWith: like('start'),
    endsWith: like('end'),
    matches: matching,
    ...LISTED,
    ...NULLS,
  }),
  enum: table({ ...EQUAL, ...LISTED, ...NULLS }),
  number: table(NUMBER),
  boolean: table({ ...EQUAL, ...NULLS }),
  datetime: table(DATETIME),
  days: table(DAYS),
  uuid: table({ equals: one(false), in: anyOf(false), ...NULLS }),
  uuids: table({ equals: one(false), in: anyOf(false), ...NULLS }),
  list: table({
    hasAny: overlapping,
    hasAll: including,
    contains: like('anywhere'),
    isEmpty: without({ is: 'empty', negated: false }),
    isNotEmpty: without({ is: 'empty', negated: true }),
    ...NULLS,
  }),
  software: table({ contains: like('anywhere'), notContains: like('anywhere', true) }),
  noSoftware: table({ contains: like('anywhere', true) }),
};

function table(operators: Operators): ReadonlyMap<string, Operator> {
  return new Map(Object.entries(operators));
}

export const operatorOf = (kind: Kind, name: string): Operator | undefined => BY_KIND[kind].get(name);
export const operatorsOf = (kind: Kind): string[] => [...BY_KIND[kind].keys()];

import { DAY_MS } from '../../clock.ts';
import { invalid, AppError } from '../../platform/errors.ts';
import { customKey } from './fields.ts';
import type { CustomKinds, Dependency, Value, MatchableDevice, Field } from './field.ts';
import { type Fault, type Leaf, pathOf, type Rule, type Test } from './rule.ts';
import { instantText, boundAt } from './instants.ts';
import { parseRule } from './parse.ts';
import { type SqlCondition, toSql } from './to-sql.ts';

/** Valid conditions. They can be evaluated in the database, or in memory for one device. */
export class Conditions {
  readonly #rule: Rule;
  readonly #leaves: readonly Leaf[];
  #predicate: Predicate | undefined;

  /** The parts of a device that the result depends on. While none of them changes, neither does the result. */
  readonly reads: ReadonlySet<Dependency>;
  /** The keys of the custom fields among these parts. */
  readonly customFields: ReadonlySet<string>;
  /** Whether the result can change with time alone. */
  readonly dependsOnTime: boolean;
  /** The regular expressions, in Postgres syntax. */
  readonly patterns: readonly string[];

  constructor(rule: Rule) {
    this.#rule = rule;
    this.#leaves = leavesOf(rule);
    this.reads = new Set(this.#leaves.map(({ field }) => field.reads));
    this.customFields = new Set(this.#leaves.flatMap(({ field }) => customKey(field.key) ?? []));
    this.dependsOnTime = this.#leaves.some(
      ({ test }) =>
        test.is === 'within' && [test.low, test.high].some((end) => end !== undefined && 'before' in end),
    );
    this.patterns = this.#leaves.flatMap(({ test }) =>
      test.is === 'matching' ? [test.pattern.postgres] : [],
    );
  }

  /** Evaluates the conditions in memory. `now` is in milliseconds. */
  matches(device: MatchableDevice, now: number): boolean {
    this.#predicate ??= compilePredicate(this.#rule);
    return this.#predicate(device, now);
  }

  /** The result of each single condition, in order; at most `atMost` of them. */
  explain(
    device: MatchableDevice,
    now: number,
    { root = 'conditions', atMost = Infinity } = {},
  ): Explained[] {
    return this.#leaves.slice(0, atMost).map((leaf) => ({
      path: pathOf(root, leaf.place),
      field: leaf.field.key,
      operator: leaf.operator,
      matched: compileTest(leaf)(device, now),
      ...shownValue(leaf, device, now),
    }));
  }

  /** The cost of evaluating them continuously: the number of conditions plus the expanded size of their patterns. */
  get weight(): number {
    let weight = this.#leaves.length;
    for (const { test } of this.#leaves) if (test.is === 'matching') weight += test.pattern.cost.size;
    return weight;
  }

  get count(): number {
    return this.#leaves.length;
  }

  toSql(options: { now: number; tenant: string; prefix: string }): SqlCondition {
    return toSql(this.#rule, options);
  }

  /** Whether they test if a device is in any group at all, so that they depend on all groups. */
  get readAnyGroup(): boolean {
    return this.#leaves.some(({ field, test }) => field.key === 'groupId' && test.is === 'null');
  }

  /** The ids that the conditions name, with their paths. */
  references(root = 'conditions'): Reference[] {
    return this.#leaves.flatMap(({ field: { key }, test, place }) => {
      if (key !== 'orgId' && key !== 'siteId' && key !== 'groupId') return [];
      if (test.is !== 'among') return [];
      return test.values.map((id) => ({ kind: key, id, path: () => `${pathOf(root, place)}.value` }));
    });
  }
}

export interface Reference {
  kind: 'orgId' | 'siteId' | 'groupId';
  id: string;
  /** Computed on demand, because deep paths are long. */
  path: () => string;
}

interface Explained {
  path: string;
  field: string;
  operator: string;
  matched: boolean;
  /** The value of the device that the condition saw. */
  value: unknown;
  /** How many values there are, if more than are shown. */
  valueCount?: number;
}

type ParsedConditions = { ok: true; conditions: Conditions } | { ok: false; faults: Fault[] };

/** @param root  the prefix of the paths of faults */
export function parseConditions(
  value: unknown,
  { root = 'conditions', customKinds }: { root?: string; customKinds: CustomKinds },
): ParsedConditions {
  const parsed = parseRule(value, { root, customKinds });
  return parsed.ok ? { ok: true, conditions: new Conditions(parsed.rule) } : parsed;
}

/** The faults that do not depend on the definitions of custom fields. */
export function conditionFaults(value: unknown, root: string): Fault[] {
  const parsed = parseRule(value, { root, customKinds: undefined });
  return parsed.ok ? [] : parsed.faults;
}

/** One error with all faults. For an unknown field, its message begins with `Unknown field` (SPEC 2.8). */
export function invalidConditions(faults: readonly Fault[]): AppError {
  const [first] = faults;
  if (first === undefined) return invalid('conditions', 'is not valid');
  const sentence = first.message.startsWith('Unknown field')
    ? `${first.message} (${first.path})`
    : `${first.path}: ${first.message}`;
  return new AppError('validation_failed', sentence, { details: faults });
}

function leavesOf(rule: Rule): Leaf[] {
  const leaves: Leaf[] = [];
  const open: Rule[] = [rule];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if ('children' in next) for (const child of next.children.toReversed()) open.push(child);
    else leaves.push(next);
  }
  return leaves;
}

function shownValue(
  { field }: Leaf,
  device: MatchableDevice,
  now: number,
): Pick<Explained, 'value' | 'valueCount'> {
  const value: Value = field.value(device);
  if (typeof value === 'number') {
    if (field.kind === 'datetime') return { value: instantText(value) };
    return { value: field.kind === 'days' ? (now - value) / DAY_MS : value };
  }
  if (value === null || typeof value === 'string') {
    return { value: field.kind === 'boolean' && value !== null ? value === 'true' : value };
  }
  return value.length > SHOWN_MAX
    ? { value: value.slice(0, SHOWN_MAX), valueCount: value.length }
    : { value };
}

/** A machine may have thousands of programs; this many are shown. */
const SHOWN_MAX = 100;

/** Serializes valid conditions of any depth. JSON.stringify is recursive and fails at about 2,000 nested groups. */
export function conditionsText(conditions: unknown): string {
  const parts: string[] = [];
  // A stack of what remains to be written: values, and the text between them.
  const waiting: ({ value: unknown } | string)[] = [{ value: conditions }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === 'string') parts.push(next);
    else if (isGroup(next.value)) {
      const { operator, conditions: items } = next.value;
      parts.push(`{"operator":${JSON.stringify(operator)},"conditions":[`);
      waiting.push(']}');
      for (let index = items.length - 1; index >= 0; index--) {
        waiting.push({ value: items[index] });
        if (index > 0) waiting.push(',');
      }
    } else parts.push(JSON.stringify(next.value));
  }
  return parts.join('');
}

function isGroup(value: unknown): value is { operator: unknown; conditions: readonly unknown[] } {
  return (
    typeof value === 'object' && value !== null && 'conditions' in value && Array.isArray(value.conditions)
  );
}

/** Compiles a rule into a flat list of tests, each with the next step for either result. */

type Predicate = (device: MatchableDevice, now: number) => boolean;

interface Step {
  ask: Predicate;
  whenTrue: number;
  whenFalse: number;
}

const MATCHED = -1;

const MISSED = -2;

function compilePredicate(rule: Rule): Predicate {
  const steps = stepsOf(rule);
  const start = steps.length - 1;
  return (device, now) => {
    let at = start;
    for (let step = steps[at]; step !== undefined; step = steps[at]) {
      at = step.ask(device, now) ? step.whenTrue : step.whenFalse;
    }
    return at === MATCHED;
  };
}

/** Built from the last test to the first, so that the next step of a test is already known. */
function stepsOf(rule: Rule): Step[] {
  const steps: Step[] = [];
  const open = [{ rule, left: -1, whenTrue: MATCHED, whenFalse: MISSED }];
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    const { rule, whenTrue, whenFalse } = frame;
    if (!('children' in rule)) {
      steps.push({ ask: compileTest(rule), whenTrue, whenFalse });
      open.pop();
      continue;
    }
    const isLast = frame.left === -1;
    if (isLast) frame.left = rule.children.length;
    frame.left -= 1;
    const child = rule.children[frame.left];
    if (child === undefined) {
      open.pop();
      continue;
    }
    const behind = steps.length - 1;
    open.push({
      rule: child,
      left: -1,
      whenTrue: isLast || rule.operator === 'or' ? whenTrue : behind,
      whenFalse: isLast || rule.operator === 'and' ? whenFalse : behind,
    });
  }
  return steps;
}

/** Compiles a single condition. */
function compileTest({ field, test }: Leaf): Predicate {
  const read = (device: MatchableDevice) => field.value(device);
  const asked = testOf(field, test);
  return (device, now) => asked(read(device), now);
}

type Asked = (value: Value, now: number) => boolean;

function testOf(field: Field, test: Test): Asked {
  switch (test.is) {
    case 'null':
      return (value) => (value === null) !== test.negated;
    case 'among': {
      const wanted = new Set(test.values);
      return (value) => some(value, (text) => wanted.has(text)) !== test.negated;
    }
    case 'like': {
      const wanted = fold(test.text);
      const holds = { anywhere: includes, start: startsWith, end: endsWith }[test.part];
      const negated = test.negated || field.kind === 'noSoftware';
      return (value) => some(value, (text) => holds(fold(text), wanted)) !== negated;
    }
    case 'matching':
      return (value) => some(value, (text) => test.pattern.test(text));
    case 'within':
      return within(test);
    case 'overlapping': {
      const wanted = new Set(test.values);
      return (value) => some(value, (text) => wanted.has(text));
    }
    case 'including':
      return (value) => Array.isArray(value) && test.values.every((text) => value.includes(text));
    case 'empty':
      return (value) => some(value, () => true) === test.negated;
    default:
      return test satisfies never;
  }
}

const includes = (text: string, part: string) => text.includes(part);

const startsWith = (text: string, part: string) => text.startsWith(part);

const endsWith = (text: string, part: string) => text.endsWith(part);

function some(value: Value, test: (text: string) => boolean): boolean {
  if (typeof value === 'string') return test(value);
  return Array.isArray(value) && value.some(test);
}

function within({ low, high, negated }: Test & { is: 'within' }): Asked {
  const isAbove = (value: number, now: number) => {
    if (low === undefined) return true;
    const end = boundAt(low, now);
    return 'at' in low && low.open === true ? value > end : value >= end;
  };
  const isBelow = (value: number, now: number) => {
    if (high === undefined) return true;
    const end = boundAt(high, now);
    return 'at' in high && high.open === true ? value < end : value <= end;
  };
  return (value, now) =>
    (typeof value === 'number' && isAbove(value, now) && isBelow(value, now)) !== negated;
}

// Characters whose lower case differs between Postgres 18 and JavaScript. Postgres maps each character alone (JavaScript
// maps İ to two characters and Σ depending on its neighbours) and knows Unicode 16: letters of later versions stay
// unchanged, and letters that older versions of Node do not know are mapped here.
const OTHERWISE =
  /[Σİ\uA7CB\uA7CC\uA7CE\uA7D2\uA7D4\uA7DA\uA7DC\u{10D50}-\u{10D65}\u{16EA0}-\u{16EB8}]|[^Σİ\uA7CB\uA7CC\uA7CE\uA7D2\uA7D4\uA7DA\uA7DC\u{10D50}-\u{10D65}\u{16EA0}-\u{16EB8}]+/gu;

const LOWERED: ReadonlyMap<string, string> = new Map([
  ['Σ', 'σ'],
  ['İ', 'i'],
  ['\uA7CB', '\u0264'],
  ['\uA7CC', '\uA7CD'],
  ['\uA7CE', '\uA7CE'],
  ['\uA7D2', '\uA7D2'],
  ['\uA7D4', '\uA7D4'],
  ['\uA7DA', '\uA7DB'],
  ['\uA7DC', '\u019B'],
  ...letters(0x10d50, 0x10d65, 32),
  ...letters(0x16ea0, 0x16eb8, 0),
]);

function letters(first: number, last: number, apart: number): [string, string][] {
  return Array.from({ length: last - first + 1 }, (_, n) => [
    String.fromCodePoint(first + n),
    String.fromCodePoint(first + n + apart),
  ]);
}

// oxlint-disable-next-line no-control-regex -- all of ASCII
const ASCII_ONLY = /^[\0-\x7F]*$/;

/** Lower case as in Postgres under C.UTF-8, so that both backends match the same texts. */
export function fold(text: string): string {
  if (ASCII_ONLY.test(text)) return text.toLowerCase();
  return text.replaceAll(OTHERWISE, (part) => LOWERED.get(part) ?? part.toLowerCase());
}

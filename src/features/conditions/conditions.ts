import { invalid, AppError } from '../../platform/errors.ts';
import { customKey } from './fields/custom-field.ts';
import type { CustomKinds, Dependency, Value } from './fields/field.ts';
import type { Fault } from './language/faults.ts';
import { compileTest, type Predicate, compilePredicate } from './memory/compile-predicate.ts';
import { instantText } from './fields/instants.ts';
import type { MatchableDevice } from './fields/matchable-device.ts';
import { parseRule } from './language/parse.ts';
import { type Leaf, pathOf, type Rule } from './language/rule.ts';
import { type SqlCondition, toSql } from './sql/to-sql.ts';

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
      value: shownValue(leaf, device, now),
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

export interface Explained {
  path: string;
  field: string;
  operator: string;
  matched: boolean;
  /** The value of the device that the condition saw. */
  value: unknown;
}

export type ParsedConditions = { ok: true; conditions: Conditions } | { ok: false; faults: Fault[] };

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

const DAY_MS = 86_400_000;

function shownValue({ field, test }: Leaf, device: MatchableDevice, now: number): unknown {
  const value: Value = field.value(device);
  if (typeof value === 'number') {
    if (field.kind === 'datetime') return instantText(value);
    if (field.kind === 'days') return (now - value) / DAY_MS;
    return value;
  }
  if (field.kind === 'boolean' && value !== null) return value === 'true';
  return test.is === 'like' && Array.isArray(value) ? value.slice(0, SHOWN_MAX) : value;
}

/** A machine may have thousands of programs; this many are shown. */
const SHOWN_MAX = 100;

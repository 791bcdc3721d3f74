import { customKey, fieldNamed } from './fields.ts';
import { type CustomKinds, type Field, isMany } from './field.ts';
import {
  Faults,
  type Fault,
  type Group,
  type Leaf,
  pathOf,
  type Position,
  type Rule,
  type Test,
} from './rule.ts';
import { operatorOf, operatorsOf } from './operators.ts';
import { PATTERN_MAX } from './pattern.ts';
import { shortened } from '../../protocol/index.ts';

export type Parsed = { ok: true; rule: Rule } | { ok: false; faults: Fault[] };

/**
 * Validates conditions and builds their syntax tree. It is iterative, so nesting may have any depth.
 * @param root  the prefix of the paths of faults
 * @param customKinds  undefined if the definitions are not known yet: conditions on custom fields are then not validated
 */
export function parseRule(
  value: unknown,
  { root = 'conditions', customKinds }: { root?: string; customKinds: CustomKinds | undefined },
): Parsed {
  const faults = new Faults();
  const budget = new ConditionBudget();
  const fieldOf = fieldsByName(customKinds ?? new Map());
  const top: Group = { operator: 'and', children: [] };
  // A group is merged into its parent if that is equivalent: same operator, or a single child.
  const open: { items: readonly unknown[]; next: number; into: Group; place: Position | undefined }[] = [];

  const enter = (raw: object, into: Group, place: Position | undefined): void => {
    const group = readGroup(raw, (message, key) => faults.add(() => at(place, key), message));
    if (group === undefined) return;
    const { operator, items } = group;
    let target = into;
    if (items.length > 1 && operator !== into.operator) {
      target = { operator, children: [] };
      into.children.push(target);
    }
    open.push({ items, next: 0, into: target, place });
  };
  const at = (place: Position | undefined, ...more: readonly (string | number)[]) =>
    [pathOf(root, place), ...more].join('.');

  if (isObject(value) && !Object.hasOwn(value, 'field')) enter(value, top, undefined);
  else faults.add(() => root, 'must be a group { operator, conditions }');
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    if (frame.next === frame.items.length) {
      open.pop();
      continue;
    }
    const place: Position = { group: frame.place, index: frame.next };
    const item = frame.items[frame.next];
    frame.next += 1;
    if (!isObject(item)) faults.add(() => at(place), NEITHER);
    else if (Object.hasOwn(item, 'conditions')) enter(item, frame.into, place);
    else if (!budget.takeCondition()) {
      faults.add(() => root, `must have at most ${CONDITIONS_MAX} conditions, groups not counted`);
      break;
    } else {
      const complain = (message: string, ...within: readonly (string | number)[]) =>
        faults.add(() => at(place, ...within), message);
      const leaf = readCondition(item, { place, customKinds, budget, fieldOf }, complain);
      if (leaf !== undefined) frame.into.children.push(leaf);
    }
  }
  if (faults.found) return { ok: false, faults: faults.list(root) };
  const [first, ...others] = top.children;
  return { ok: true, rule: first !== undefined && others.length === 0 ? first : top };
}

const NEITHER = 'must be a condition { field, operator, value } or a group { operator, conditions }';

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const shown = (text: string) => shortened(text, 100).toWellFormed();

function refuseUnknownKeys(
  raw: object,
  known: readonly string[],
  complain: (message: string, key: string) => void,
): void {
  for (const key of Object.keys(raw)) if (!known.includes(key)) complain('is not known here', shown(key));
}

function readGroup(
  raw: object,
  complain: (message: string, key: string) => void,
): { operator: 'and' | 'or'; items: readonly unknown[] } | undefined {
  const { operator, conditions } = raw as Json;
  refuseUnknownKeys(raw, ['operator', 'conditions'], complain);
  if (operator !== 'AND' && operator !== 'OR') complain('must be AND or OR', 'operator');
  if (!Array.isArray(conditions) || conditions.length === 0) {
    complain('must be a list with at least one condition', 'conditions');
    return undefined;
  }
  return { operator: operator === 'OR' ? 'or' : 'and', items: conditions };
}

/** Caches fields by name, because thousands of conditions may use the same custom field. */
function fieldsByName(customKinds: CustomKinds): (name: string) => Field | undefined {
  const known = new Map<string, Field | undefined>();
  return (name) => {
    if (!known.has(name)) known.set(name, fieldNamed(name, customKinds));
    return known.get(name);
  };
}

type Complain = (message: string, ...within: readonly (string | number)[]) => void;

function readCondition(
  raw: Json,
  {
    place,
    customKinds,
    budget,
    fieldOf,
  }: {
    place: Position;
    customKinds: CustomKinds | undefined;
    budget: ConditionBudget;
    fieldOf: (name: string) => Field | undefined;
  },
  complain: Complain,
): Leaf | undefined {
  refuseUnknownKeys(raw, ['field', 'operator', 'value'], complain);
  const { field: name, operator } = raw;
  if (typeof operator !== 'string') complain('must be a string', 'operator');
  if (typeof name !== 'string') {
    complain('must be a string', 'field');
    return undefined;
  }
  const field = fieldOf(name);
  if (field === undefined || !name.isWellFormed() || name.includes('\0')) {
    complain(`Unknown field "${shown(name).replaceAll('\0', '')}"`, 'field');
    return undefined;
  }
  if (typeof operator !== 'string') return undefined;
  if (customKinds === undefined && customKey(name) !== undefined) return undefined;
  const test = readTest(raw, operator, { field, budget }, complain);
  return test === undefined ? undefined : { field, operator, test, place };
}

function readTest(
  raw: Json,
  name: string,
  { field, budget }: { field: Field; budget: ConditionBudget },
  complain: Complain,
): Test | undefined {
  const operator = operatorOf(field.kind, name);
  if (operator === undefined) {
    const fit = operatorsOf(field.kind).join(', ');
    complain(`"${shown(name)}" is not an operator of ${shown(field.key)}; use one of ${fit}`, 'operator');
    return undefined;
  }
  const hasValue = Object.hasOwn(raw, 'value');
  if (hasValue !== operator.takesValue) {
    complain(hasValue ? `must be left out with ${name}` : `is required with ${name}`, 'value');
    return undefined;
  }
  const tooMany = name === 'matches' ? budget.takePattern(raw['value']) : undefined;
  if (tooMany !== undefined) {
    complain(tooMany, 'value');
    return undefined;
  }
  const test = operator.read(
    raw['value'],
    (message, ...within) => complain(message, 'value', ...within),
    field,
  );
  const tooMuch = test === undefined ? undefined : budget.takeTest(field, test);
  if (tooMuch !== undefined) complain(tooMuch, 'value');
  return test;
}

/**
 * The limits of one filter. Nesting has no limit because it costs nothing. docs/filters.md has measurements of
 * what conditions cost when they are validated, queried and evaluated continuously.
 */
export const CONDITIONS_MAX = 10_000;

/** Conditions on what stands in other tables or lists (tags, groups, software, averages): each runs a subquery. */
export const LIST_CONDITIONS_MAX = 100;

export const PATTERNS_MAX = 20;

export const PATTERN_TEXT_MAX = 2000;

/** The total cost of all patterns, in the units of `PatternCost`. */
const PATTERNS_SIZE_MAX = 2000;

const PATTERNS_TRANSITIONS_MAX = 16_000;

/** Adds up the conditions of one filter. */
class ConditionBudget {
  #conditions = 0;
  #lists = 0;
  #patterns = 0;
  #text = 0;
  #size = 0;
  #transitions = 0;

  /** Counts one more condition. Returns false if there are too many. */
  takeCondition(): boolean {
    this.#conditions += 1;
    return this.#conditions <= CONDITIONS_MAX;
  }

  /** Call it before a pattern is parsed, because parsing also takes time. Returns the fault, if any. */
  takePattern(source: unknown): string | undefined {
    this.#patterns += 1;
    if (typeof source === 'string') this.#text += Math.min(source.length, PATTERN_MAX);
    if (this.#patterns > PATTERNS_MAX) {
      return `A filter can have at most ${PATTERNS_MAX} regular expressions.`;
    }
    if (this.#text <= PATTERN_TEXT_MAX) return undefined;
    return `The regular expressions of a filter can have at most ${PATTERN_TEXT_MAX} characters in total.`;
  }

  /** Returns the fault, if any. */
  takeTest(field: Field, test: Test): string | undefined {
    if (isMany(field) || field.reads === 'averages') {
      this.#lists += 1;
      if (this.#lists <= LIST_CONDITIONS_MAX) return undefined;
      return `A filter can have at most ${LIST_CONDITIONS_MAX} conditions on tags, groups, software, custom lists and averages.`;
    }
    if (test.is !== 'matching') return undefined;
    const { size, transitions } = test.pattern.cost;
    this.#size += size;
    this.#transitions += transitions;
    if (this.#size > PATTERNS_SIZE_MAX) {
      return `The regular expressions of a filter are too large: at most ${PATTERNS_SIZE_MAX} characters in total, with repetitions expanded.`;
    }
    if (this.#transitions > PATTERNS_TRANSITIONS_MAX) {
      return `The regular expressions of a filter are too complex: at most ${PATTERNS_TRANSITIONS_MAX} transitions in total, which optional parts multiply.`;
    }
    return undefined;
  }
}

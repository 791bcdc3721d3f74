import type { Bound } from './instants.ts';
import type { Pattern } from './pattern.ts';
import type { Field } from './field.ts';

/** The syntax tree of conditions: validated and normalized, the common input of both backends. */

export type Rule = Group | Leaf;

/** Has at least two children (the outermost may have one), none of which is a group with the same operator. */
export interface Group {
  operator: 'and' | 'or';
  children: Rule[];
}

export interface Leaf {
  field: Field;
  operator: string;
  test: Test;
  place: Position;
}

/** A test of a field's value. Negated tests are true if there is no value. */
export type Test =
  | { is: 'null'; negated: boolean }
  | { is: 'among'; values: readonly string[]; negated: boolean }
  | { is: 'like'; part: 'anywhere' | 'start' | 'end'; text: string; negated: boolean }
  | { is: 'matching'; pattern: Pattern }
  | { is: 'within'; low: Bound | undefined; high: Bound | undefined; negated: boolean }
  | { is: 'overlapping'; values: readonly string[] }
  | { is: 'including'; values: readonly string[] }
  | { is: 'empty'; negated: boolean };

/** The position of a condition: its index within its group. */
export interface Position {
  group: Position | undefined;
  index: number;
}

/** An error in conditions, with its path. */
export interface Fault {
  path: string;
  message: string;
}

const FAULTS_MAX = 100;

/** Collects faults. Beyond a limit, only their number is kept. */
export class Faults {
  readonly #listed: Fault[] = [];
  #more = 0;

  get found(): boolean {
    return this.#listed.length > 0;
  }

  /** @param path  called only if the fault is listed */
  add(path: () => string, message: string): void {
    if (this.#listed.length < FAULTS_MAX) this.#listed.push({ path: path(), message });
    else this.#more += 1;
  }

  list(root: string): Fault[] {
    if (this.#more === 0) return this.#listed;
    return [...this.#listed, { path: root, message: `has ${this.#more} more faults that are not listed` }];
  }
}

const SHOWN_LEVELS = 40;

/** Such as `conditions.conditions.3`. Very deep paths are cut to their innermost levels. */
export function pathOf(root: string, place: Position | undefined): string {
  const steps: string[] = [];
  let at = place;
  for (; at !== undefined && steps.length < SHOWN_LEVELS; at = at.group) steps.push(`conditions.${at.index}`);
  return [at === undefined ? root : `${root}.…`, ...steps.reverse()].join('.');
}

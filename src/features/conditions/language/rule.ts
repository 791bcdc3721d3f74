import type { Bound } from '../fields/instants.ts';
import type { Pattern } from '../patterns/pattern.ts';
import type { Field } from '../fields/field.ts';

/** Conditions as both backends work with them: checked, and with nothing left that can be said in a simpler way. */

export type Rule = Group | Leaf;

/** Its children are not groups of the same operator, and at least two; the outermost may have one. */
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

/** What is asked of a field's value. `negated` ones are true where there is no value. */
export type Test =
  | { is: 'null'; negated: boolean }
  | { is: 'among'; values: readonly string[]; negated: boolean }
  | { is: 'like'; part: 'anywhere' | 'start' | 'end'; text: string; negated: boolean }
  | { is: 'matching'; pattern: Pattern }
  | { is: 'within'; low: Bound | undefined; high: Bound | undefined; negated: boolean }
  | { is: 'overlapping'; values: readonly string[] }
  | { is: 'including'; values: readonly string[] }
  | { is: 'empty'; negated: boolean };

/** Where a condition stands: which of its group's. */
export interface Position {
  group: Position | undefined;
  index: number;
}

const SHOWN_LEVELS = 40;

/** `conditions.conditions.3`; of one that lies very deep, the innermost levels. */
export function pathOf(root: string, place: Position | undefined): string {
  const steps: string[] = [];
  let at = place;
  for (; at !== undefined && steps.length < SHOWN_LEVELS; at = at.group) steps.push(`conditions.${at.index}`);
  return [at === undefined ? root : `${root}.…`, ...steps.reverse()].join('.');
}

import { type Field, isMany } from '../fields/field.ts';
import { PATTERN_MAX } from '../patterns/pattern.ts';
import type { Test } from './rule.ts';

/**
 * The limits of one filter. Nesting has no limit because it costs nothing. docs/decisions/filters.md has measurements of
 * what conditions cost when they are validated, queried and evaluated continuously.
 */
export const CONDITIONS_MAX = 10_000;
/** Conditions on fields with many values (tags, groups, software, custom lists), each of which runs a subquery. */
export const LIST_CONDITIONS_MAX = 100;
export const PATTERNS_MAX = 20;
export const PATTERN_TEXT_MAX = 2000;
/** The total cost of all patterns, in the units of `PatternCost`. */
export const PATTERNS_SIZE_MAX = 2000;
export const PATTERNS_TRANSITIONS_MAX = 16_000;

/** Adds up the conditions of one filter. */
export class ConditionBudget {
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
    if (isMany(field)) {
      this.#lists += 1;
      if (this.#lists <= LIST_CONDITIONS_MAX) return undefined;
      return `A filter can have at most ${LIST_CONDITIONS_MAX} conditions on tags, groups, software and custom lists.`;
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

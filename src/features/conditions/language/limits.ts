import { type Field, isMany } from '../fields/field.ts';
import { PATTERN_MAX } from '../patterns/pattern.ts';
import type { Test } from './rule.ts';

/**
 * What one filter may hold. Depth costs nothing and has no limit; what each condition costs those who check it, look
 * for its devices and follow it is measured in docs/decisions/filters.md.
 */
export const CONDITIONS_MAX = 10_000;
/** Of a field that has many values: tags, groups, software, custom lists. For each of them a subquery is run. */
export const LIST_CONDITIONS_MAX = 100;
export const PATTERNS_MAX = 20;
export const PATTERN_TEXT_MAX = 2000;
/** All patterns together, in the measures of `PatternCost`. */
export const PATTERNS_SIZE_MAX = 2000;
export const PATTERNS_TRANSITIONS_MAX = 16_000;

/** Adds up what the conditions of one filter hold. */
export class ConditionBudget {
  #conditions = 0;
  #lists = 0;
  #patterns = 0;
  #text = 0;
  #size = 0;
  #transitions = 0;

  /** One more condition, of which nothing is known yet. Answers whether there may be one. */
  takeCondition(): boolean {
    this.#conditions += 1;
    return this.#conditions <= CONDITIONS_MAX;
  }

  /** Before a pattern is read, since that too takes time. Answers what is wrong. */
  takePattern(source: unknown): string | undefined {
    this.#patterns += 1;
    if (typeof source === 'string') this.#text += Math.min(source.length, PATTERN_MAX);
    if (this.#patterns > PATTERNS_MAX) {
      return `must not be one more regular expression: a filter may have at most ${PATTERNS_MAX} of them`;
    }
    if (this.#text <= PATTERN_TEXT_MAX) return undefined;
    return `must be a shorter regular expression: those of a filter may have at most ${PATTERN_TEXT_MAX} characters together`;
  }

  /** Answers what is wrong. */
  takeTest(field: Field, test: Test): string | undefined {
    if (isMany(field)) {
      this.#lists += 1;
      if (this.#lists <= LIST_CONDITIONS_MAX) return undefined;
      return `must not be one more condition on tags, groups, software or custom lists: a filter may have at most ${LIST_CONDITIONS_MAX} of them`;
    }
    if (test.is !== 'matching') return undefined;
    const { size, transitions } = test.pattern.cost;
    this.#size += size;
    this.#transitions += transitions;
    if (this.#size > PATTERNS_SIZE_MAX) {
      return `must be a simpler regular expression: those of a filter may have at most ${PATTERNS_SIZE_MAX} characters together, with repetitions written out`;
    }
    if (this.#transitions > PATTERNS_TRANSITIONS_MAX) {
      return `must be a simpler regular expression: those of a filter may have at most ${PATTERNS_TRANSITIONS_MAX} transitions together, as optional parts make them`;
    }
    return undefined;
  }
}

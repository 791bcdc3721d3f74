import type { CharacterSet } from './character-set.ts';

/**
 * Estimates what a regular expression costs from its structure, before it is compiled. Both engines expand repetitions:
 * RE2JS takes about 8 µs and 1 kB per expanded character, and Postgres builds an automaton without empty transitions, in
 * which a sequence of optional parts has a quadratic number of transitions.
 */

/** The syntax tree of a pattern, independent of the syntax of either engine. */
export type PatternNode =
  | { is: 'characters'; set: CharacterSet }
  | { is: 'nothing' }
  /** Matches between characters: `^`, `$`, `\\b` or `\\B`. */
  | { is: 'edge' | 'boundary' }
  | { is: 'sequence' | 'choice'; parts: readonly PatternNode[] }
  /** `max` is Infinity if there is no upper limit. */
  | { is: 'repeat'; part: PatternNode; min: number; max: number };

export interface PatternCost {
  /** Characters and alternatives, with repetitions expanded. */
  size: number;
  /**
   * Transitions of the automaton without empty transitions: one for each class of characters that the pattern
   * distinguishes, and for each path through `^`, `$` and word boundaries.
   */
  transitions: number;
}

/** Why a pattern is rejected, for its author. */
export class PatternFault extends Error {}

/** The maximum cost of one pattern; `language/limits.ts` has the limits of a whole filter. */
export const PATTERN_COST = { size: 1000, transitions: 8000 } as const;

/** Returns the cost of the pattern. Throws a `PatternFault` if it exceeds the limits. */
export function assertAffordable(pattern: PatternNode): PatternCost {
  const cost = costOf(pattern);
  for (const [measure, max, what] of [
    ['size', PATTERN_COST.size, 'characters with repetitions expanded'],
    ['transitions', PATTERN_COST.transitions, 'transitions, which optional parts multiply'],
  ] as const) {
    if (cost[measure] <= max) continue;
    const has = cost[measure] === COUNT_MAX ? 'far more' : cost[measure];
    throw new PatternFault(`The regular expression is too complex: at most ${max} ${what}; it has ${has}.`);
  }
  return cost;
}

/** Counts are capped, because larger ones are too large anyway and infinities cannot be subtracted. */
const COUNT_MAX = 1e9;

interface Measured extends PatternCost {
  /** Transitions that lead into the part. */
  first: number;
  /** Characters that may be its last, each counted once per path from there to its end. */
  last: number;
  /** Whether it can match nothing, without any condition. */
  isOptional: boolean;
  /** Paths through it without a character, each with a condition such as `^`. */
  guardedWays: number;
}

export function costOf(pattern: PatternNode): PatternCost {
  const whole = measure(pattern, widthsIn(pattern));
  const { size, transitions, first, last } = whole;
  return { size, transitions: capped(transitions + first + last + waysThrough(whole)) };
}

interface OpenGroup {
  /** Completed alternatives. */
  choices: PatternNode[];
  /** Parts of the current alternative. */
  parts: PatternNode[];
}

/** Builds the syntax tree of a pattern from left to right. */
export class PatternTree {
  readonly #open: OpenGroup[] = [{ choices: [], parts: [] }];

  get #innermost(): OpenGroup {
    const group = this.#open.at(-1);
    if (group === undefined) throw new Error('all groups of the pattern are closed');
    return group;
  }

  add(node: PatternNode): void {
    this.#innermost.parts.push(node);
  }

  open(): void {
    this.#open.push({ choices: [], parts: [] });
  }

  close(): void {
    const group = this.#innermost;
    this.#open.pop();
    this.add(nodeOf(group));
  }

  /** Starts another alternative of the same group. */
  or(): void {
    const { choices, parts } = this.#innermost;
    choices.push(sequence(parts.splice(0)));
  }

  /** Repeats the last part. */
  repeat(min: number, max: number): void {
    const part = this.#innermost.parts.pop();
    if (part !== undefined) this.add({ is: 'repeat', part, min, max });
  }

  whole(): PatternNode {
    return nodeOf(this.#innermost);
  }
}

function nodeOf({ choices, parts }: OpenGroup): PatternNode {
  const last = sequence(parts);
  return choices.length === 0 ? last : { is: 'choice', parts: [...choices, last] };
}

function sequence(parts: readonly PatternNode[]): PatternNode {
  const [only, ...others] = parts;
  if (only === undefined) return { is: 'nothing' };
  return others.length === 0 ? only : { is: 'sequence', parts };
}

type Widths = ReadonlyMap<CharacterSet, number>;

/** The empty sequence. */
const EMPTY: Measured = { size: 0, transitions: 0, first: 0, last: 0, isOptional: true, guardedWays: 0 };

/** A part that matches no character but still has a size. */
const NOTHING: Measured = { ...EMPTY, size: 1 };

const EDGE: Measured = { ...NOTHING, isOptional: false, guardedWays: 1 };

/** Postgres has no ASCII word boundary. Its replacement of four look-arounds costs as much as ten edges. */
const BOUNDARY: Measured = { ...EDGE, guardedWays: 10 };

function measure(node: PatternNode, widths: Widths): Measured {
  switch (node.is) {
    case 'characters':
      return { ...EDGE, first: widths.get(node.set) ?? 1, last: 1, guardedWays: 0 };
    case 'nothing':
      return NOTHING;
    case 'edge':
      return EDGE;
    case 'boundary':
      return BOUNDARY;
    case 'sequence':
      return node.parts.map((part) => measure(part, widths)).reduce(followed, EMPTY);
    case 'choice': {
      const [one = EMPTY, ...others] = node.parts.map((part) => measure(part, widths));
      return others.reduce(either, one);
    }
    case 'repeat':
      return repeated(measure(node.part, widths), node);
    default:
      return node satisfies never;
  }
}

const waysThrough = ({ isOptional, guardedWays }: Measured) => guardedWays + (isOptional ? 1 : 0);

function followed(one: Measured, other: Measured): Measured {
  const isOptional = one.isOptional && other.isOptional;
  return {
    size: capped(one.size + other.size),
    transitions: capped(one.transitions + other.transitions + one.last * other.first),
    first: capped(one.first + waysThrough(one) * other.first),
    last: capped(other.last + waysThrough(other) * one.last),
    isOptional,
    guardedWays: capped(waysThrough(one) * waysThrough(other) - (isOptional ? 1 : 0)),
  };
}

function either(one: Measured, other: Measured): Measured {
  return {
    size: capped(one.size + other.size + 1),
    transitions: capped(one.transitions + other.transitions),
    first: capped(one.first + other.first),
    last: capped(one.last + other.last),
    isOptional: one.isOptional || other.isOptional,
    guardedWays: capped(one.guardedWays + other.guardedWays),
  };
}

/** `x{2,4}` expands to `xx(?:x(?:x)?)?`, and `x{2,}` to `xx+`. */
function repeated(part: Measured, { min, max }: { min: number; max: number }): Measured {
  if (max === 0) return { ...NOTHING, size: Math.max(1, part.size) };
  let tail = EMPTY;
  let copies = min;
  if (max === Infinity) {
    tail = { ...again(part), isOptional: part.isOptional || min === 0 };
    copies = min - 1;
  } else {
    for (let copy = max; copy > min; copy--) tail = { ...followed(part, tail), isOptional: true };
  }
  for (let copy = 0; copy < copies; copy++) tail = followed(part, tail);
  return tail;
}

/** One or more times. */
function again(part: Measured): Measured {
  const { guardedWays, last, first } = part;
  return {
    ...part,
    transitions: capped(part.transitions + last * first * (1 + guardedWays)),
    guardedWays: capped(guardedWays * (1 + guardedWays)),
  };
}

const capped = (count: number) => Math.min(count, COUNT_MAX);

/**
 * The number of character classes in each set of the pattern. Characters that are in exactly the same sets form one
 * class. Postgres has a transition per class (its "colors"): `.` alone is one class, but many beside many different
 * letters.
 */
function widthsIn(pattern: PatternNode): Widths {
  const sets = [...new Map(setsIn(pattern).map((set) => [set.key, set])).values()];
  const edges = sets.flatMap((set, index) =>
    set.ranges.flatMap(([from, to]) => [
      { at: from, index },
      { at: to + 1, index },
    ]),
  );
  edges.sort((a, b) => a.at - b.at);
  const byKey = new Map<string, number>();
  const within = new Set<number>();
  const classes = new Set<bigint>();
  // The sets that contain the characters from here on, one bit each.
  let holders = 0n;
  for (const [next, { at, index }] of edges.entries()) {
    holders ^= 1n << BigInt(index);
    if (!within.delete(index)) within.add(index);
    if (edges[next + 1]?.at === at || classes.has(holders)) continue;
    classes.add(holders);
    for (const one of within) {
      const { key = '' } = sets[one] ?? {};
      byKey.set(key, (byKey.get(key) ?? 0) + 1);
    }
  }
  return new Map(setsIn(pattern).map((set) => [set, byKey.get(set.key) ?? 1]));
}

function setsIn(node: PatternNode): CharacterSet[] {
  switch (node.is) {
    case 'characters':
      return [node.set];
    case 'sequence':
    case 'choice':
      return node.parts.flatMap(setsIn);
    case 'repeat':
      return setsIn(node.part);
    default:
      return [];
  }
}

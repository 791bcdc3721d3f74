import type { CharacterSet } from './character-set.ts';

/**
 * What a regular expression costs those who run it, found from its structure before anybody compiles it. Both engines
 * write repetitions out: RE2JS takes some 8 µs and 1 kB for each character that is then there, and Postgres builds an
 * automaton without empty steps, of which many things that may each be left out make a square number of transitions.
 */

/** The structure of a pattern: what both engines compile, whatever their syntax is. */
export type PatternNode =
  | { is: 'characters'; set: CharacterSet }
  | { is: 'nothing' }
  /** Matches between characters: `^`, `$`, `\\b` or `\\B`. */
  | { is: 'edge' | 'boundary' }
  | { is: 'sequence' | 'choice'; parts: readonly PatternNode[] }
  /** `max` is Infinity where there is no end. */
  | { is: 'repeat'; part: PatternNode; min: number; max: number };

export interface PatternCost {
  /** Characters and alternatives, with repetitions written out. */
  size: number;
  /**
   * Transitions of the automaton without empty steps: one for each class of characters that the pattern tells apart, and
   * for each way through `^`, `$` and word boundaries that leads there.
   */
  transitions: number;
}

/** Why a pattern is not taken, for the person who wrote it. */
export class PatternFault extends Error {}

/** So much one pattern may cost; what a whole filter may cost stands in `limits.ts`. */
export const PATTERN_COST = { size: 1000, transitions: 8000 } as const;

/** Answers what the pattern costs. Throws a `PatternFault` where that is more than a pattern may. */
export function assertAffordable(pattern: PatternNode): PatternCost {
  const cost = costOf(pattern);
  for (const [measure, max, what] of [
    ['size', PATTERN_COST.size, 'characters with its repetitions written out'],
    ['transitions', PATTERN_COST.transitions, 'transitions between characters, as many optional parts make'],
  ] as const) {
    if (cost[measure] <= max) continue;
    const has = cost[measure] === COUNT_MAX ? 'far more' : cost[measure];
    throw new PatternFault(`must be a simpler regular expression: at most ${max} ${what}; it has ${has}`);
  }
  return cost;
}

/** Also of a pattern that would go beyond all numbers: it is too large anyway, and infinities would not add up. */
const COUNT_MAX = 1e9;

interface Measured extends PatternCost {
  /** Transitions that lead into it. */
  first: number;
  /** Characters that may be its last, each as often as there are ways from it to the end. */
  last: number;
  /** Whether it may be left out without any condition. */
  isOptional: boolean;
  /** Ways through it without a character, each with a condition such as `^`. */
  guardedWays: number;
}

export function costOf(pattern: PatternNode): PatternCost {
  const whole = measure(pattern, widthsIn(pattern));
  const { size, transitions, first, last } = whole;
  return { size, transitions: capped(transitions + first + last + waysThrough(whole)) };
}

type Widths = ReadonlyMap<CharacterSet, number>;

/** What a sequence begins with. */
const EMPTY: Measured = { size: 0, transitions: 0, first: 0, last: 0, isOptional: true, guardedWays: 0 };
/** Something that takes no character, and that is written nevertheless. */
const NOTHING: Measured = { ...EMPTY, size: 1 };
const EDGE: Measured = { ...NOTHING, isOptional: false, guardedWays: 1 };
/** Postgres has none that is of ASCII: for it they are four conditions, which cost as much as so many edges. */
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

/** `x{2,4}` is written out as `xx(?:x(?:x)?)?`, and `x{2,}` as `xx+`. */
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

/** As often as it fits, once at least. */
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
 * Of each set of characters, how many classes it consists of: characters that every set of the pattern holds, or does
 * not hold, together are one class. Postgres has a transition for each ("color"): `.` alone is one, and is many beside
 * many different letters.
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
  // Which sets hold the characters from here on, a bit for each.
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

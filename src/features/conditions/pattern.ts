import { RE2JS } from 're2js';
import { CharacterSet } from './character-set.ts';
import {
  assertAffordable,
  PatternFault,
  type PatternCost,
  type PatternNode,
  PatternTree,
} from './pattern-cost.ts';

export const PATTERN_MAX = 256;

/** The limit of Postgres. */
const REPEAT_MAX = 255;

/** A regular expression that means the same in memory (RE2) and in Postgres (an ARE). */
export class Pattern {
  /** The original text. */
  readonly source: string;
  /** The pattern in Postgres syntax. */
  readonly postgres: string;
  readonly cost: PatternCost;
  readonly #re2: string;
  #compiled: RE2JS | undefined;

  constructor(parts: { source: string; re2: string; postgres: string; cost: PatternCost }) {
    this.source = parts.source;
    this.postgres = parts.postgres;
    this.cost = parts.cost;
    this.#re2 = parts.re2;
  }

  /** Compiles the pattern on first use, so that merely parsing a filter stays cheap. */
  test(text: string): boolean {
    this.#compiled ??= RE2JS.compile(this.#re2);
    return this.#compiled.test(text);
  }
}

interface Sized {
  cost: { size: number };
}

/** The total size of cached patterns: about 40 MB if all of them are compiled. */
const CACHE_SIZE = 20_000;

/** The minimum size of a cached pattern, because small ones take memory as well. */
const MIN_SIZE = 20;

/** Caches the most recently used patterns, so that they are not parsed and compiled again. */
export class PatternCache<P extends Sized> {
  readonly #kept = new Map<string, P>();
  readonly #read: (source: string) => P;
  readonly #sizeMax: number;
  #size = 0;

  constructor(read: (source: string) => P, sizeMax = CACHE_SIZE) {
    this.#read = read;
    this.#sizeMax = sizeMax;
  }

  get(source: string): P {
    const known = this.#kept.get(source);
    const pattern = known ?? this.#read(source);
    if (known === undefined) this.#size += sizeOf(pattern);
    // Moves to the end; the first key is then the least recently used one.
    this.#kept.delete(source);
    this.#kept.set(source, pattern);
    for (const [oldest, dropped] of this.#kept) {
      if (this.#size <= this.#sizeMax || oldest === source) break;
      this.#kept.delete(oldest);
      this.#size -= sizeOf(dropped);
    }
    return pattern;
  }
}

const sizeOf = ({ cost }: Sized) => Math.max(cost.size, MIN_SIZE);

const patterns = new PatternCache(checkPattern);

/** Validates a pattern without compiling it. Throws a `PatternFault` if it is not valid. */
export function readPattern(source: string): Pattern {
  return patterns.get(source);
}

function checkPattern(source: string): Pattern {
  if (source.length > PATTERN_MAX) {
    throw new PatternFault(`The regular expression can have at most ${PATTERN_MAX} characters.`);
  }
  const { re2, postgres, tree } = new Translation(source).run();
  return new Pattern({ source, re2, postgres, cost: assertAffordable(tree) });
}

const WORD = CharacterSet.of(['0', '9'], ['A', 'Z'], ['_', '_'], ['a', 'z']);

const DIGIT = CharacterSet.of(['0', '9']);

const SPACE = CharacterSet.of(['\t', '\n'], ['\f', '\r'], [' ', ' ']);

const CLASSES = new Map<string, CharacterSet>([
  ['d', DIGIT],
  ['D', DIGIT.complement()],
  ['w', WORD],
  ['W', WORD.complement()],
  ['s', SPACE],
  ['S', SPACE.complement()],
]);

const NAMED = new Map<string, CharacterSet>([
  ['alnum', CharacterSet.of(['0', '9'], ['A', 'Z'], ['a', 'z'])],
  ['alpha', CharacterSet.of(['A', 'Z'], ['a', 'z'])],
  ['blank', CharacterSet.of(['\t', '\t'], [' ', ' '])],
  ['digit', DIGIT],
  ['lower', CharacterSet.of(['a', 'z'])],
  ['upper', CharacterSet.of(['A', 'Z'])],
  ['punct', CharacterSet.of(['!', '/'], [':', '@'], ['[', '`'], ['{', '~'])],
  ['space', CharacterSet.of(['\t', '\r'], [' ', ' '])],
  ['word', WORD],
  ['xdigit', CharacterSet.of(['0', '9'], ['A', 'F'], ['a', 'f'])],
]);

const CONTROLS = new Map([
  ['a', '\u0007'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['v', '\v'],
]);

const NEWLINE = CharacterSet.of(['\n', '\n']);

const AT_WORD = `[A-Za-z0-9_]`;

/** The word boundary of Postgres counts letters of all alphabets; RE2 counts only ASCII. */
const BOUNDARY = `(?:(?<=${AT_WORD})(?!${AT_WORD})|(?<!${AT_WORD})(?=${AT_WORD}))`;

const NO_BOUNDARY = `(?:(?<=${AT_WORD})(?=${AT_WORD})|(?<!${AT_WORD})(?!${AT_WORD}))`;

/** A quantifier: its text, and its minimum and maximum. */
interface Times {
  times: string;
  min: number;
  max: number;
}

const SIGNS = {
  '*': { min: 0, max: Infinity },
  '+': { min: 1, max: Infinity },
  '?': { min: 0, max: 1 },
} as const;

/** Translates the syntax that both engines share, and rejects everything else with a specific message. */
class Translation {
  readonly #input: string[];
  #at = 0;
  #re2 = '';
  #postgres = '';
  #anyCase = false;
  readonly #tree = new PatternTree();

  constructor(source: string) {
    this.#input = Array.from(source);
  }

  run(): { re2: string; postgres: string; tree: PatternNode } {
    if (this.#input.slice(0, 4).join('') === '(?i)') {
      this.#anyCase = true;
      this.#at = 4;
    }
    let depth = 0;
    let repeatable = false;
    for (let next = this.#take(); next !== undefined; next = this.#take()) {
      switch (next) {
        case '(':
          this.#openGroup();
          depth += 1;
          repeatable = false;
          break;
        case ')':
          if (depth === 0) throw fault('has ) without (');
          this.#write(')');
          this.#tree.close();
          depth -= 1;
          repeatable = true;
          break;
        case '|':
          this.#write(next);
          this.#tree.or();
          repeatable = false;
          break;
        case '^':
        case '$':
          this.#edge(next);
          repeatable = false;
          break;
        case '*':
        case '+':
        case '?':
          this.#repeat({ times: next, ...SIGNS[next] }, repeatable);
          repeatable = false;
          break;
        case '.':
          this.#class(NEWLINE.complement());
          repeatable = true;
          break;
        case '[':
          this.#bracket();
          repeatable = true;
          break;
        case '\\':
          repeatable = this.#escape();
          break;
        case '{': {
          const times = this.#bound();
          if (times === undefined) {
            this.#literal('{');
            repeatable = true;
          } else {
            this.#repeat(times, repeatable);
            repeatable = false;
          }
          break;
        }
        default:
          this.#literal(next);
          repeatable = true;
      }
    }
    if (depth > 0) throw fault('has ( without )');
    return { re2: this.#re2, postgres: this.#postgres, tree: this.#tree.whole() };
  }

  #take(): string | undefined {
    return this.#input[this.#at++];
  }

  #sees(text: string): boolean {
    return this.#input.slice(this.#at, this.#at + text.length).join('') === text;
  }

  #write(both: string): void {
    this.#re2 += both;
    this.#postgres += both;
  }

  #class(set: CharacterSet): void {
    this.#oneOf(this.#anyCase ? set.inAnyCase() : set);
  }

  #oneOf(set: CharacterSet): void {
    this.#re2 += set.forRe2();
    this.#postgres += set.forPostgres();
    this.#tree.add({ is: 'characters', set });
  }

  /** The start or end of the text. */
  #edge(sign: '^' | '$'): void {
    this.#write(sign);
    this.#tree.add({ is: 'edge' });
  }

  #boundary(re2: string, postgres: string): void {
    this.#re2 += re2;
    this.#postgres += postgres;
    this.#tree.add({ is: 'boundary' });
  }

  #literal(character: string): void {
    this.#class(CharacterSet.of([character, character]));
  }

  /** All groups become non-capturing, because only whether the pattern matches counts. */
  #openGroup(): void {
    this.#write('(?:');
    this.#tree.open();
    if (!this.#sees('?')) return;
    if (this.#sees('?:')) {
      this.#at += 2;
      return;
    }
    for (const [syntax, name] of [
      ['?=', 'look-ahead'],
      ['?!', 'look-ahead'],
      ['?<=', 'look-behind'],
      ['?<!', 'look-behind'],
    ] as const) {
      if (this.#sees(syntax)) throw fault(`uses ${name}, which is not supported: (${syntax}`);
    }
    const name = /^\?P?<[A-Za-z_]\w*>/.exec(this.#input.slice(this.#at).join(''))?.[0];
    if (name === undefined) {
      throw fault('uses flags; only (?i) at the very beginning is supported');
    }
    this.#at += name.length;
  }

  /** Lazy quantifiers become greedy, because that does not change whether the pattern matches. */
  #repeat({ times, min, max }: Times, repeatable: boolean): void {
    if (!repeatable) throw invalid(`quantifier ${times} has nothing to repeat`);
    this.#write(times);
    this.#tree.repeat(min, max);
    if (this.#sees('?')) this.#at += 1;
  }

  #bound(): Times | undefined {
    const found = /^(\d+)(?:(,)(\d*))?\}/.exec(this.#input.slice(this.#at).join(''));
    if (found === null) return undefined;
    const [whole, low = '', comma, high = ''] = found;
    if (Number(low) > REPEAT_MAX || Number(high) > REPEAT_MAX) {
      throw fault(`repeats a part more than ${REPEAT_MAX} times`);
    }
    if (high !== '' && Number(high) < Number(low)) {
      throw fault(`has a repetition that has a maximum below its minimum`);
    }
    this.#at += whole.length;
    const min = Number(low);
    const times = `{${min}${comma ?? ''}${high === '' ? '' : Number(high)}}`;
    return { times, min, max: comma === undefined ? min : high === '' ? Infinity : Number(high) };
  }

  /** Returns whether a quantifier may follow. */
  #escape(): boolean {
    const next = this.#take();
    switch (next) {
      case 'b':
        this.#boundary('\\b', BOUNDARY);
        return false;
      case 'B':
        this.#boundary('\\B', NO_BOUNDARY);
        return false;
      case 'A':
        this.#edge('^');
        return false;
      case 'z':
        this.#edge('$');
        return false;
      default:
        this.#class(this.#escaped(next));
        return true;
    }
  }

  /** The characters of an escape, inside or outside of brackets. */
  #escaped(next: string | undefined): CharacterSet {
    if (next === undefined) throw fault('ends with a backslash');
    const set = CLASSES.get(next);
    if (set !== undefined) return set;
    const control = CONTROLS.get(next);
    if (control !== undefined) return CharacterSet.of([control, control]);
    if (next === 'x' || next === 'u') return this.#codePoint(next);
    if (next === 'p' || next === 'P') throw fault('uses Unicode classes, which are not supported: \\p');
    if (/[0-9]/.test(next)) {
      throw fault(`uses back-references or octal escapes, which are not supported: \\${next}`);
    }
    if (/[A-Za-z]/.test(next)) throw fault(`has an unknown escape: \\${next}`);
    return CharacterSet.of([next, next]);
  }

  #codePoint(kind: 'x' | 'u'): CharacterSet {
    const form = kind === 'x' ? /^(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/ : /^([0-9A-Fa-f]{4})/;
    const found = form.exec(this.#input.slice(this.#at).join(''));
    const code = Number.parseInt(found?.[1] ?? found?.[2] ?? '', 16);
    if (found === null || !(code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff))) {
      throw fault(`has an escape that is not a character: \\${kind}`);
    }
    this.#at += found[0].length;
    const character = String.fromCodePoint(code);
    return CharacterSet.of([character, character]);
  }

  #bracket(): void {
    const negated = this.#sees('^');
    if (negated) this.#at += 1;
    let set = CharacterSet.of();
    for (let isFirst = true; ; isFirst = false) {
      const next = this.#take();
      if (next === undefined) throw fault('has [ without ]');
      if (next === ']' && !isFirst) break;
      const one = this.#bracketItem(next);
      const isRange = this.#sees('-') && this.#input[this.#at + 1] !== ']' && one.single !== undefined;
      if (!isRange) {
        set = set.with(one);
        continue;
      }
      this.#at += 1;
      const end = this.#take();
      if (end === undefined) throw fault('has [ without ]');
      const last = this.#bracketItem(end).single;
      if (last === undefined || one.single === undefined || last < one.single) {
        throw fault('has a range in brackets that does not end with a later character');
      }
      set = set.with(new CharacterSet([[one.single, last]]));
    }
    if (this.#anyCase) set = set.inAnyCase();
    const wanted = negated ? set.complement() : set;
    if (wanted.isEmpty) throw fault('has brackets that match no character');
    this.#oneOf(wanted);
  }

  #bracketItem(next: string): CharacterSet {
    if (next === '\\') return this.#escaped(this.#take());
    if (next !== '[') return CharacterSet.of([next, next]);
    if (this.#sees('.') || this.#sees('=')) {
      throw fault('uses collating elements, which are not supported: [. or [=');
    }
    if (!this.#sees(':')) return CharacterSet.of(['[', '[']);
    const found = /^:(\^?)([a-z]+):\]/.exec(this.#input.slice(this.#at).join(''));
    const named = NAMED.get(found?.[2] ?? '');
    if (found === null || named === undefined) {
      throw fault('has an unknown character class in brackets: [:');
    }
    this.#at += found[0].length;
    return found[1] === '^' ? named.complement() : named;
  }
}

const invalid = (reason: string) => new PatternFault(`Invalid regular expression: ${reason}.`);

const fault = (what: string) => invalid(`it ${what}`);

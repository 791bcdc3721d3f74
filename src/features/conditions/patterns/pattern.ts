import { RE2JS } from 're2js';
import { CharacterSet } from './character-set.ts';
import { PatternCache } from './pattern-cache.ts';
import { assertAffordable, PatternFault, type PatternCost, type PatternNode } from './pattern-cost.ts';
import { PatternTree } from './pattern-tree.ts';

export const PATTERN_MAX = 256;
/** What Postgres takes. */
const REPEAT_MAX = 255;

/** A regular expression that means the same in memory (RE2) and in Postgres (an ARE). */
export class Pattern {
  /** As it was written. */
  readonly source: string;
  /** As Postgres reads it. */
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

  /** Compiles the pattern when it is asked for the first time: whoever only reads a filter does not pay for that. */
  test(text: string): boolean {
    this.#compiled ??= RE2JS.compile(this.#re2);
    return this.#compiled.test(text);
  }
}

const patterns = new PatternCache(checkPattern);

/** Checks a pattern without compiling it. Throws a `PatternFault`. */
export function readPattern(source: string): Pattern {
  return patterns.get(source);
}

function checkPattern(source: string): Pattern {
  if (source.length > PATTERN_MAX) {
    throw new PatternFault(`must have at most ${PATTERN_MAX} characters`);
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
/** Postgres has a word boundary of its own, of other words: those with letters of all alphabets. */
const BOUNDARY = `(?:(?<=${AT_WORD})(?!${AT_WORD})|(?<!${AT_WORD})(?=${AT_WORD}))`;
const NO_BOUNDARY = `(?:(?<=${AT_WORD})(?=${AT_WORD})|(?<!${AT_WORD})(?!${AT_WORD}))`;

/** How a repetition is written, and how often at least and at most it repeats. */
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

/** Reads the syntax that both have and writes it for each; whatever else there is, is refused by name. */
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
          if (depth === 0) throw fault('has a ) without its (');
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
    if (depth > 0) throw fault('has a ( without its )');
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

  /** Where the text begins or ends. */
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

  /** What a group is called is of no use here, nor that it is remembered. */
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
      if (this.#sees(syntax)) throw fault(`must not use ${name}: (${syntax}`);
    }
    const name = /^\?P?<[A-Za-z_]\w*>/.exec(this.#input.slice(this.#at).join(''))?.[0];
    if (name === undefined) {
      throw fault('must not use flags within the pattern; (?i) may stand at its very beginning');
    }
    this.#at += name.length;
  }

  /** Whether as few or as many as can be makes no difference to whether it matches. */
  #repeat({ times, min, max }: Times, repeatable: boolean): void {
    if (!repeatable) throw fault(`has the quantifier ${times} with nothing to repeat before it`);
    this.#write(times);
    this.#tree.repeat(min, max);
    if (this.#sees('?')) this.#at += 1;
  }

  #bound(): Times | undefined {
    const found = /^(\d+)(?:(,)(\d*))?\}/.exec(this.#input.slice(this.#at).join(''));
    if (found === null) return undefined;
    const [whole, low = '', comma, high = ''] = found;
    if (Number(low) > REPEAT_MAX || Number(high) > REPEAT_MAX) {
      throw fault(`must not repeat anything more than ${REPEAT_MAX} times`);
    }
    if (high !== '' && Number(high) < Number(low)) throw fault(`has a repetition that ends before it begins`);
    this.#at += whole.length;
    const min = Number(low);
    const times = `{${min}${comma ?? ''}${high === '' ? '' : Number(high)}}`;
    return { times, min, max: comma === undefined ? min : high === '' ? Infinity : Number(high) };
  }

  /** @returns whether what it wrote can be repeated */
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

  /** The characters that an escape stands for, within brackets or outside. */
  #escaped(next: string | undefined): CharacterSet {
    if (next === undefined) throw fault('ends in a backslash');
    const set = CLASSES.get(next);
    if (set !== undefined) return set;
    const control = CONTROLS.get(next);
    if (control !== undefined) return CharacterSet.of([control, control]);
    if (next === 'x' || next === 'u') return this.#codePoint(next);
    if (next === 'p' || next === 'P') throw fault('must not use Unicode classes: \\p');
    if (/[0-9]/.test(next)) throw fault(`must not use back-references or octal escapes: \\${next}`);
    if (/[A-Za-z]/.test(next)) throw fault(`has an unknown escape: \\${next}`);
    return CharacterSet.of([next, next]);
  }

  #codePoint(kind: 'x' | 'u'): CharacterSet {
    const form = kind === 'x' ? /^(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/ : /^([0-9A-Fa-f]{4})/;
    const found = form.exec(this.#input.slice(this.#at).join(''));
    const code = Number.parseInt(found?.[1] ?? found?.[2] ?? '', 16);
    if (found === null || !(code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff))) {
      throw fault(`has an escape that names no character: \\${kind}`);
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
      if (next === undefined) throw fault('has a [ without its ]');
      if (next === ']' && !isFirst) break;
      const one = this.#bracketItem(next);
      const isRange = this.#sees('-') && this.#input[this.#at + 1] !== ']' && one.single !== undefined;
      if (!isRange) {
        set = set.with(one);
        continue;
      }
      this.#at += 1;
      const end = this.#take();
      if (end === undefined) throw fault('has a [ without its ]');
      const last = this.#bracketItem(end).single;
      if (last === undefined || one.single === undefined || last < one.single) {
        throw fault('has a range in brackets that does not go from one character to a later one');
      }
      set = set.with(new CharacterSet([[one.single, last]]));
    }
    if (this.#anyCase) set = set.inAnyCase();
    const wanted = negated ? set.complement() : set;
    if (wanted.isEmpty) throw fault('has brackets that no character fits');
    this.#oneOf(wanted);
  }

  #bracketItem(next: string): CharacterSet {
    if (next === '\\') return this.#escaped(this.#take());
    if (next !== '[') return CharacterSet.of([next, next]);
    if (this.#sees('.') || this.#sees('=')) throw fault('must not use collating elements: [. or [=');
    if (!this.#sees(':')) return CharacterSet.of(['[', '[']);
    const found = /^:(\^?)([a-z]+):\]/.exec(this.#input.slice(this.#at).join(''));
    const named = NAMED.get(found?.[2] ?? '');
    if (found === null || named === undefined) {
      throw fault('has an unknown class of characters in brackets: [:');
    }
    this.#at += found[0].length;
    return found[1] === '^' ? named.complement() : named;
  }
}

const fault = (what: string) => new PatternFault(`must be a regular expression: it ${what}`);

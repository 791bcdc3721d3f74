const LAST = 0x10ffff;
/** Surrogates are not characters. */
const GAP_FROM = 0xd800;
const GAP_TO = 0xdfff;

type Range = readonly [from: number, to: number];

/** A set of characters as code point ranges, which both regular expression syntaxes can express in brackets. */
export class CharacterSet {
  readonly #ranges: readonly Range[];

  constructor(ranges: readonly Range[]) {
    this.#ranges = merged(ranges);
  }

  static of(...ranges: readonly (readonly [from: string, to: string])[]): CharacterSet {
    return new CharacterSet(
      ranges.map(([from, to]) => [from.codePointAt(0) ?? 0, to.codePointAt(0) ?? 0] as const),
    );
  }

  get ranges(): readonly Range[] {
    return this.#ranges;
  }

  /** Equal for sets with the same characters. */
  get key(): string {
    return this.#ranges.join(' ');
  }

  get isEmpty(): boolean {
    return this.#ranges.length === 0;
  }

  /** The code point, if the set has exactly one. */
  get single(): number | undefined {
    const [first] = this.#ranges;
    return this.#ranges.length === 1 && first?.[0] === first?.[1] ? first?.[0] : undefined;
  }

  with(other: CharacterSet): CharacterSet {
    return new CharacterSet([...this.#ranges, ...other.#ranges]);
  }

  complement(): CharacterSet {
    const ranges: Range[] = [];
    let from = 1;
    for (const [begin, end] of this.#ranges) {
      if (begin > from) ranges.push([from, begin - 1]);
      from = end + 1;
    }
    if (from <= LAST) ranges.push([from, LAST]);
    return new CharacterSet(ranges);
  }

  /** The set extended by the other case of each letter. */
  inAnyCase(): CharacterSet {
    const { letters, others } = cases();
    const added: Range[] = [];
    for (const [from, to] of this.#ranges) {
      for (let at = firstFrom(letters, from); at < letters.length; at++) {
        const letter = letters[at] ?? Infinity;
        if (letter > to) break;
        const other = others[at] ?? letter;
        if (!this.#has(other)) added.push([other, other]);
      }
    }
    return added.length === 0 ? this : new CharacterSet([...this.#ranges, ...added]);
  }

  forRe2(): string {
    return this.#brackets((code) => `\\x{${code.toString(16)}}`);
  }

  forPostgres(): string {
    return this.#brackets((code) =>
      code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`,
    );
  }

  #brackets(escaped: (code: number) => string): string {
    const shown = (code: number) => {
      const character = String.fromCodePoint(code);
      return /[0-9A-Za-z]/.test(character) ? character : escaped(code);
    };
    const { single } = this;
    if (single !== undefined) return shown(single);
    const ranges = this.#ranges.map(([from, to]) =>
      from === to ? shown(from) : `${shown(from)}-${shown(to)}`,
    );
    return `[${ranges.join('')}]`;
  }

  #has(code: number): boolean {
    let low = 0;
    let high = this.#ranges.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const [from, to] = this.#ranges[middle] ?? [0, 0];
      if (code < from) high = middle - 1;
      else if (code > to) low = middle + 1;
      else return true;
    }
    return false;
  }
}

function merged(ranges: readonly Range[]): Range[] {
  const result: [number, number][] = [];
  for (const [from, to] of ranges.flatMap(withoutGap).sort(([a], [b]) => a - b)) {
    const last = result.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}

function withoutGap([from, to]: Range): Range[] {
  const parts: Range[] = [
    [from, Math.min(to, GAP_FROM - 1)],
    [Math.max(from, GAP_TO + 1), to],
  ];
  return parts.filter(([begin, end]) => begin <= end);
}

/** Blocks of scripts without letter case; skipping them avoids five sixths of the work. */
const WITHOUT_CASE: readonly Range[] = [
  [0x2e80, 0xa4cf],
  [0xac00, 0xfaff],
  [0x12000, 0x16dff],
  [0x17000, 0x1cfff],
];

function* lettersWithCase(): Iterable<number> {
  for (let code = 0x41; code < 0x1f000; code++) {
    const skipped = WITHOUT_CASE.find(([from, to]) => code >= from && code <= to);
    if (skipped === undefined) yield code;
    else code = skipped[1];
  }
}

interface Cases {
  /** Letters that have another case, sorted; a letter with several other cases is listed several times. */
  letters: Int32Array;
  /** The other case of each of them. */
  others: Int32Array;
}

let known: Cases | undefined;

function cases(): Cases {
  if (known !== undefined) return known;
  const pairs = new Map<string, Range>();
  for (const code of lettersWithCase()) {
    const letter = String.fromCodePoint(code);
    for (const other of [letter.toLowerCase(), letter.toUpperCase()]) {
      const [only, ...rest] = other;
      if (only === undefined || rest.length > 0 || only === letter) continue;
      const otherCode = only.codePointAt(0) ?? 0;
      pairs.set(`${code} ${otherCode}`, [code, otherCode]);
      pairs.set(`${otherCode} ${code}`, [otherCode, code]);
    }
  }
  const sorted = [...pairs.values()].sort(([a], [b]) => a - b);
  known = {
    letters: Int32Array.from(sorted, ([letter]) => letter),
    others: Int32Array.from(sorted, ([, other]) => other),
  };
  return known;
}

/** The index of the first number that is not less than `from`. */
function firstFrom(sorted: Int32Array, from: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? Infinity) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

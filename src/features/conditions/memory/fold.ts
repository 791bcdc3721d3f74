// What Postgres 18 does otherwise than JavaScript, or than some release of it. Postgres maps each character by itself
// (JavaScript makes two of İ and looks at a Σ's neighbours), and knows the letters of Unicode 16: those of a later one
// stay as they are, and those that an older Node does not know yet are lowered here.
const OTHERWISE =
  /[Σİ\uA7CB\uA7CC\uA7CE\uA7D2\uA7D4\uA7DA\uA7DC\u{10D50}-\u{10D65}\u{16EA0}-\u{16EB8}]|[^Σİ\uA7CB\uA7CC\uA7CE\uA7D2\uA7D4\uA7DA\uA7DC\u{10D50}-\u{10D65}\u{16EA0}-\u{16EB8}]+/gu;

const LOWERED: ReadonlyMap<string, string> = new Map([
  ['Σ', 'σ'],
  ['İ', 'i'],
  ['\uA7CB', '\u0264'],
  ['\uA7CC', '\uA7CD'],
  ['\uA7CE', '\uA7CE'],
  ['\uA7D2', '\uA7D2'],
  ['\uA7D4', '\uA7D4'],
  ['\uA7DA', '\uA7DB'],
  ['\uA7DC', '\u019B'],
  ...letters(0x10d50, 0x10d65, 32),
  ...letters(0x16ea0, 0x16eb8, 0),
]);

function letters(first: number, last: number, apart: number): [string, string][] {
  return Array.from({ length: last - first + 1 }, (_, n) => [
    String.fromCodePoint(first + n),
    String.fromCodePoint(first + n + apart),
  ]);
}

// oxlint-disable-next-line no-control-regex -- all of ASCII
const ASCII_ONLY = /^[\0-\x7F]*$/;

/** Lower case as Postgres makes it under C.UTF-8, so that both backends of a rule find the same text. */
export function fold(text: string): string {
  if (ASCII_ONLY.test(text)) return text.toLowerCase();
  return text.replaceAll(OTHERWISE, (part) => LOWERED.get(part) ?? part.toLowerCase());
}

// Characters whose lower case differs between Postgres 18 and JavaScript. Postgres maps each character alone (JavaScript
// maps İ to two characters and Σ depending on its neighbours) and knows Unicode 16: letters of later versions stay
// unchanged, and letters that older versions of Node do not know are mapped here.
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

/** Lower case as in Postgres under C.UTF-8, so that both backends match the same texts. */
export function fold(text: string): string {
  if (ASCII_ONLY.test(text)) return text.toLowerCase();
  return text.replaceAll(OTHERWISE, (part) => LOWERED.get(part) ?? part.toLowerCase());
}

/**
 * Devices choose their names and what stands in their logs. A terminal obeys control characters: it would let such a text
 * rewrite what stands above it, or fill the clipboard. So they are shown as escapes. Pure.
 */

/** Controls, invisible formats such as the reversal of direction, separators of lines, and halves of characters. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escaped = (character: string) => {
  const code = character.codePointAt(0) ?? 0;
  return NAMED[character] ?? (code < 0x100 ? `\\x${hex(code, 2)}` : `\\u{${hex(code, 4)}}`);
};
const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');

/** Foreign text as one line that no terminal acts on. */
export const visible = (text: string): string => text.replace(UNSAFE, escaped);

/** The same for text of several lines, such as the output of a script. */
export const visibleLines = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .replace(UNSAFE, (character) => (/[\n\t]/.test(character) ? character : escaped(character)));

/** One line of JSON that a terminal does not act on either: JSON itself escapes only some control characters. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value).replace(UNSAFE, (character) =>
    character
      .split('')
      .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`)
      .join(''),
  );

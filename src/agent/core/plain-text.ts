/** Text as the protocol accepts it: without NUL and without halves of surrogate pairs. */
export function plainText(text: string): string {
  return text.replaceAll(/\0|\p{Surrogate}/gu, '\uFFFD');
}

/** The last `max` characters. Half of a surrogate pair at the start is dropped. */
export function lastCharacters(text: string, max: number): string {
  if (text.length <= max) return text;
  const end = text.slice(text.length - max);
  return isLowSurrogate(end) ? end.slice(1) : end;
}

/** The last characters that take at most `max` bytes in a message, where some characters take six. */
export function lastBytes(text: string, max: number): string {
  let kept = text;
  for (;;) {
    const bytes = Buffer.byteLength(JSON.stringify(kept));
    if (bytes <= max) return kept;
    // The end may need more bytes per character than the average, so one cut may not be enough.
    kept = lastCharacters(kept, Math.floor((kept.length * max) / bytes));
  }
}

/** Foreign text as one line for a terminal or a log: without control characters, cut to `max` characters. */
export function printable(text: string, max = 300): string {
  return firstCharacters(text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' '), max);
}

/** The first `max` characters, for messages to people. */
export function firstCharacters(text: string, max: number): string {
  return plainText(text.slice(0, max));
}

const isLowSurrogate = (text: string) => /^[\uDC00-\uDFFF]/.test(text);

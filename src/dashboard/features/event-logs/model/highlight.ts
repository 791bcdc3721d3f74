export interface TextPart {
  text: string;
  isMatch: boolean;
}

/** Divides a text at every place where one of the words stands, in any case. */
export function markMatches(text: string, words: readonly (string | undefined)[]): TextPart[] {
  const wanted = words.flatMap((word) => (word === undefined || word === '' ? [] : [word]));
  if (wanted.length === 0 || text === '') return [{ text, isMatch: false }];
  // The longest first, because the first alternative that fits is taken.
  const pattern = wanted
    .sort((a, b) => b.length - a.length)
    .map((word) => word.replaceAll(/[$()*+./?[\\\]^{|}-]/g, '\\$&'))
    .join('|');
  const parts: TextPart[] = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(new RegExp(pattern, 'giu'))) {
    if (index > from) parts.push({ text: text.slice(from, index), isMatch: false });
    parts.push({ text: found, isMatch: true });
    from = index + found.length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), isMatch: false });
  return parts;
}

/** Text as one literal word of a script. Pure. Throws for control characters, which no value of ours has. */

export function shellWord(text: string): string {
  assertPlain(text);
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** PowerShell ends a string at typographic quotation marks as well. */
export function powershellWord(text: string): string {
  assertPlain(text);
  return `'${text.replaceAll(/['\u2018-\u201B]/g, '$&$&')}'`;
}

function assertPlain(text: string): void {
  if (/\p{Cc}/u.test(text)) throw new Error('control characters cannot be in an installer');
}

/** restic writes names as Go writes text in quotes, because JSON cannot hold names that are not UTF-8. */

const ESCAPE = /\\(?:([abfnrtv\\'"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/g;
const CONTROLS: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** The bytes of a name. */
export function unquoteName(quoted: string): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const match of quoted.matchAll(ESCAPE)) {
    const [whole, control, hex, octal, short, long] = match;
    parts.push(Buffer.from(quoted.slice(from, match.index), 'utf8'));
    from = match.index + whole.length;
    if (control !== undefined) parts.push(Buffer.from(CONTROLS[control] ?? control));
    else if (hex !== undefined) parts.push(Buffer.from([Number.parseInt(hex, 16)]));
    else if (octal !== undefined) parts.push(Buffer.from([Number.parseInt(octal, 8) & 0xff]));
    else parts.push(Buffer.from(characterOf(Number.parseInt(short ?? long ?? '', 16))));
  }
  parts.push(Buffer.from(quoted.slice(from), 'utf8'));
  return Buffer.concat(parts);
}

const characterOf = (code: number) => (code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd');

const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** The fields of one line of COPY's text format; null is `null`. */
export function fieldsOf(line: Buffer): (string | null)[] {
  const text = line.toString();
  const fields: (string | null)[] = text.split('\t');
  if (!text.includes('\\')) return fields;
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i];
    if (field === '\\N') fields[i] = null;
    else if (field?.includes('\\') === true) fields[i] = unescaped(field);
  }
  return fields;
}

function unescaped(field: string): string {
  let text = '';
  let from = 0;
  for (let at = field.indexOf('\\'); at >= 0; at = field.indexOf('\\', from)) {
    const sign = field[at + 1] ?? '';
    text += field.slice(from, at) + (ESCAPES[sign] ?? sign);
    from = at + 2;
  }
  return text + field.slice(from);
}

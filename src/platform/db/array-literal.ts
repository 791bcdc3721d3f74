/**
 * A Postgres array of one dimension, written out. The driver does this for any array, with two replacements for each
 * element and a look at every one beforehand; for columns of a thousand records that is most of what a batch costs here.
 */
export function arrayLiteral(values: readonly (string | number | null)[]): string {
  // Joined as they are, where that can be: no text of its own for each element.
  if (values.every((value) => typeof value === 'number')) return joined('{', values, ',', '}');
  if (values.every(isPlainText)) return joined('{"', values, '","', '"}');
  return joined('{', values.map(element), ',', '}');
}

/** The braces go with the first and the last: put around the whole, they would have it copied when it is sent. */
function joined(
  open: string,
  values: readonly (string | number | null)[],
  between: string,
  close: string,
): string {
  if (values.length === 0) return open + close;
  const parts = [...values];
  const last = parts.length - 1;
  parts[0] = `${open}${parts[0]}`;
  parts[last] = `${parts[last]}${close}`;
  return parts.join(between);
}

const NEEDS_ESCAPE = /["\\]/;
const ESCAPED = /["\\]/g;

const isPlainText = (value: string | number | null) => typeof value === 'string' && !NEEDS_ESCAPE.test(value);

function element(value: string | number | null): string {
  if (value === null) return 'NULL';
  return typeof value === 'number' ? String(value) : `"${value.replace(ESCAPED, '\\$&')}"`;
}

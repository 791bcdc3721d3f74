/**
 * A Postgres array of one dimension, written out. The driver does this for any array, with two replacements for each
 * element and a look at every one beforehand; for columns of a thousand records that is most of what a batch costs here.
 */
export function arrayLiteral(values: readonly (string | number | null)[]): string {
  // Joined as they are, where that can be: no text of its own for each element.
  if (values.every((value) => typeof value === 'number')) return `{${values.join(',')}}`;
  if (values.every(isPlainText)) return `{"${values.join('","')}"}`;
  return `{${values.map(element).join(',')}}`;
}

const NEEDS_ESCAPE = /["\\]/;
const ESCAPED = /["\\]/g;

const isPlainText = (value: string | number | null) => typeof value === 'string' && !NEEDS_ESCAPE.test(value);

function element(value: string | number | null): string {
  if (value === null) return 'NULL';
  return typeof value === 'number' ? String(value) : `"${value.replace(ESCAPED, '\\$&')}"`;
}

/**
 * A Postgres array of one dimension, written out. The driver does this for any array, with two replacements for each
 * element and a look at every one beforehand; for columns of a thousand records that is most of what a batch costs here.
 */
export function arrayLiteral(values: readonly (string | number | null)[]): string {
  let literal = '';
  for (const value of values) {
    if (literal !== '') literal += ',';
    if (value === null) literal += 'NULL';
    else if (typeof value === 'number') literal += value;
    else literal += NEEDS_ESCAPE.test(value) ? `"${value.replace(ESCAPED, '\\$&')}"` : `"${value}"`;
  }
  return `{${literal}}`;
}

const NEEDS_ESCAPE = /["\\]/;
const ESCAPED = /["\\]/g;

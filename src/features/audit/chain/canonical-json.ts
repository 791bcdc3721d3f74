/**
 * RFC 8785 (JCS): one text for one JSON value, whatever the order of its keys. For what JSON can hold: no `undefined`,
 * no number that is not finite. Property tests hold it against the package `canonicalize`, which is slower by half.
 */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

export function canonicalJson(value: Json): string {
  if (typeof value === 'string') return jsonText(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) {
    // Narrowed by hand: `isArray` knows no readonly arrays.
    const items = value as readonly Json[];
    let text = '[';
    for (let i = 0; i < items.length; i++) text += (i === 0 ? '' : ',') + canonicalJson(items[i] ?? null);
    return `${text}]`;
  }
  const object = value as { readonly [key: string]: Json };
  // By UTF-16 code units, which is how RFC 8785 sorts and how `sort` does.
  const keys = Object.keys(object).sort();
  let text = '{';
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] ?? '';
    text += `${i === 0 ? '' : ','}${jsonText(key)}:${canonicalJson(object[key] ?? null)}`;
  }
  return `${text}}`;
}

/** What JSON cannot say as it stands. Most texts have nothing of it, and looking is faster than `stringify`. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const SPECIAL = /[\u0000-\u001f"\\\ud800-\udfff]/;

export function jsonText(value: string): string {
  // What a bundle brings may be of another type; it then has another form, and so another checksum.
  return typeof value === 'string' && !SPECIAL.test(value) ? `"${value}"` : JSON.stringify(value);
}

/**
 * RFC 8785 (JCS): one text for one JSON value, whatever the order of its keys. For what JSON can hold: no `undefined`,
 * no number that is not finite. Property tests hold it against the package `canonicalize`, which is slower by half.
 */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

export function canonicalJson(value: Json): string {
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
    text += `${i === 0 ? '' : ','}${JSON.stringify(key)}:${canonicalJson(object[key] ?? null)}`;
  }
  return `${text}}`;
}

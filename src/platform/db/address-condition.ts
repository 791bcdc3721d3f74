/**
 * SQL: whether a column has one of the forms of an address (`addressForms`), in any capitalization. An index on
 * `lower(column)` serves it.
 *
 * @param forms  a placeholder for the array of the forms
 */
export const hasAddressIn = (column: string, forms: string): string =>
  `lower(${column}) = any(array(select lower(form) from unnest(${forms}::text[]) form))`;

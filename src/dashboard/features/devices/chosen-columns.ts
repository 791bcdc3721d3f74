/** The columns that an address, a saved view or this browser names for the list of devices. Pure. */

/** Columns of custom fields have the key of the field behind it. */
export const CUSTOM = 'custom.';
export const isCustom = (id: string): boolean => id.startsWith(CUSTOM);

/** As many the server takes in one request. */
const CUSTOM_AT_ONCE = 20;

/**
 * Which of the columns there are. Views outlive custom fields, so names without a column are left out.
 * @param others  in their place if there are none
 */
export function columnsToShow<Column extends { id: string }>(
  all: readonly Column[],
  chosen: readonly string[],
  others: readonly string[],
): Column[] {
  const named = (ids: readonly string[]) =>
    [...new Set(ids)].flatMap((id) => all.find((column) => column.id === id) ?? []);
  const shown = named(chosen);
  return shown.length > 0 ? shown : named(others);
}

/**
 * What to ask the server for, in several requests if there are many custom fields.
 * @param known  the names of the columns of properties, and the keys of the custom fields
 */
export function detailsToAsk(
  chosen: readonly string[],
  known: { properties: readonly string[]; customKeys: readonly string[] },
): { columns: string; customFields: string }[] {
  const columns = known.properties.filter((name) => chosen.includes(name)).join();
  const keys = known.customKeys.filter((key) => chosen.includes(CUSTOM + key)).toSorted();
  if (keys.length === 0) return columns === '' ? [] : [{ columns, customFields: '' }];
  return Array.from({ length: Math.ceil(keys.length / CUSTOM_AT_ONCE) }, (_, at) => ({
    columns: at === 0 ? columns : '',
    customFields: keys.slice(at * CUSTOM_AT_ONCE, (at + 1) * CUSTOM_AT_ONCE).join(),
  }));
}

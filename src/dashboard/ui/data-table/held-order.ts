/**
 * The order of the rows of a live table. While the person points at the table, rows keep their places: who aims at a row
 * must not hit another. Rows that are gone leave, and new ones wait at the end, until the order may change.
 */
export function heldOrder<Row>(
  shown: readonly string[],
  sorted: readonly Row[],
  keyOf: (row: Row) => string,
): Row[] {
  const byKey = new Map(sorted.map((row) => [keyOf(row), row]));
  const rows: Row[] = [];
  for (const key of shown) {
    const row = byKey.get(key);
    if (row === undefined) continue;
    rows.push(row);
    byKey.delete(key);
  }
  rows.push(...byKey.values());
  return rows;
}

export interface Sort {
  column: string;
  descending: boolean;
}

type Value = string | number | null | undefined;
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

/** Rows without a value come last, both ways. Equal rows stay in the order of their keys, so that nothing flickers. */
export function sortRows<Row>(
  rows: readonly Row[],
  valueOf: (row: Row) => Value,
  keyOf: (row: Row) => string,
  descending: boolean,
): Row[] {
  const sign = descending ? -1 : 1;
  const valued = rows.map((row) => ({ row, value: valueOf(row), key: keyOf(row) }));
  valued.sort((a, b) => {
    const aMissing = a.value === null || a.value === undefined || a.value === '';
    const bMissing = b.value === null || b.value === undefined || b.value === '';
    if (aMissing !== bMissing) return aMissing ? 1 : -1;
    const order = aMissing ? 0 : compare(a.value, b.value);
    if (order !== 0) return sign * order;
    return a.key < b.key ? -1 : 1;
  });
  return valued.map(({ row }) => row);
}

function compare(a: Value, b: Value): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(String(a), String(b));
}

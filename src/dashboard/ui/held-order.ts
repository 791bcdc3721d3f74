/**
 * The order of the rows of a live table. While the person points at the table, rows keep their places: a user who aims at a row
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

/** Sorted rows with what they are sorted by, from which the same rows are sorted again after some have changed. */
export interface SortedRows<Row> {
  entries: readonly Entry<Row>[];
  valueOf: (row: Row) => Value;
  descending: boolean;
}
interface Entry<Row> {
  row: Row;
  key: string;
  value: Value;
}

/**
 * Rows without a value come last, both ways. Equal rows stay in the order of their keys, so that nothing flickers.
 * @param before  an earlier result; rows that have the same value in it are not compared again
 */
export function sortRows<Row>(
  rows: readonly Row[],
  valueOf: (row: Row) => Value,
  keyOf: (row: Row) => string,
  descending: boolean,
  before?: SortedRows<Row>,
): SortedRows<Row> {
  const order = (a: Entry<Row>, b: Entry<Row>) => compareEntries(a, b, descending ? -1 : 1);
  const present = new Map(
    rows.map((row): [string, Entry<Row>] => {
      const key = keyOf(row);
      return [key, { row, key, value: valueOf(row) }];
    }),
  );
  const isSameSort = before?.valueOf === valueOf && before.descending === descending;
  const kept: Entry<Row>[] = [];
  for (const { key, value } of isSameSort ? before.entries : []) {
    const entry = present.get(key);
    if (entry === undefined || entry.value !== value) continue;
    kept.push(entry);
    present.delete(key);
  }
  const moved = [...present.values()].sort(order);
  return { entries: merged(kept, moved, order), valueOf, descending };
}

/** Merges a few sorted entries into many, which are compared with few of them only. */
function merged<E>(many: readonly E[], few: readonly E[], order: (a: E, b: E) => number): E[] {
  const pieces: (readonly E[])[] = [];
  let taken = 0;
  for (const entry of few) {
    let [low, high] = [taken, many.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = many[middle];
      if (other !== undefined && order(other, entry) < 0) low = middle + 1;
      else high = middle;
    }
    pieces.push(many.slice(taken, low), [entry]);
    taken = low;
  }
  pieces.push(many.slice(taken));
  return pieces.flat();
}

function compareEntries<Row>(a: Entry<Row>, b: Entry<Row>, sign: number): number {
  const aMissing = a.value === null || a.value === undefined || a.value === '';
  const bMissing = b.value === null || b.value === undefined || b.value === '';
  if (aMissing !== bMissing) return aMissing ? 1 : -1;
  const order = aMissing ? 0 : compare(a.value, b.value);
  if (order !== 0) return sign * order;
  return a.key < b.key ? -1 : 1;
}

function compare(a: Value, b: Value): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(String(a), String(b));
}

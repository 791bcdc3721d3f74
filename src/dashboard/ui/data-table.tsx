import { Checkbox } from '@mantine/core';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react';
import styles from './data-table.module.css';
import { rememberedPlace, useKeptPlace } from './kept-place.ts';
import { useIsPrinting } from './use-is-printing.ts';
import { heldOrder, sortRows, type Sort, type SortedRows } from './held-order.ts';
import { MemoizedRow, type DataColumn, type RowActs } from './table-row.tsx';

interface Props<Row> {
  rows: readonly Row[];
  columns: readonly DataColumn<Row>[];
  keyOf: (row: Row) => string;
  /** What the table holds, for readers of screens. */
  label: string;
  sort?: Sort | undefined;
  onSort?: (sort: Sort) => void;
  /** Enter, a double click, or a click on the name. */
  onOpen?: (row: Row) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (keys: ReadonlySet<string>) => void;
  rowHeight?: number;
  /** Names the visit of the page: whoever comes back to it finds the table scrolled as they left it. */
  place?: string | undefined;
  /** `j`, `k` and Enter work as soon as the page is open, without a click into the table. */
  takesKeys?: boolean;
  /** A class for a row, such as one that marks an error. */
  rowClass?: (row: Row) => string | undefined;
}

const CHECK_WIDTH = 36;
/** More rows than anybody prints would only stop the browser. */
const PRINTED_ROWS = 5000;

/** Whether a key was pressed where it means nothing else: on the page itself or its heading. */
const isFreeOfControls = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest(
    'a, button, input, select, textarea, summary, [contenteditable], [role=grid], [role=dialog], [role=menu], [role=tab]',
  ) === null;

/**
 * A table of any length, of which only the visible rows are drawn. By keyboard: arrows or `j` and `k` move, Home and End
 * jump, Enter opens, Space selects.
 */
export function DataTable<Row>({
  rows,
  columns,
  keyOf,
  label,
  sort,
  onSort,
  onOpen,
  selected,
  onSelect,
  rowHeight = 32,
  rowClass,
  place: visit,
  takesKeys = false,
}: Props<Row>) {
  const frame = useRef<HTMLDivElement>(null);
  const [isPointedAt, setPointedAt] = useState(false);
  const [active, setActive] = useState(() => rememberedPlace(visit)?.active ?? 0);
  const isPrinting = useIsPrinting();
  const shown = useRef<readonly string[]>([]);
  const lastSort = useRef(sort);
  const lastSorted = useRef<SortedRows<Row>>(undefined);

  const valueOf = columns.find(({ id }) => id === sort?.column)?.value;
  const descending = sort?.descending === true;
  const sorted = useMemo(() => {
    if (valueOf === undefined) return rows;
    lastSorted.current = sortRows(rows, valueOf, keyOf, descending, lastSorted.current);
    return lastSorted.current.entries.map(({ row }) => row);
  }, [rows, valueOf, descending, keyOf]);
  const isHeld =
    isPointedAt &&
    lastSort.current?.column === sort?.column &&
    lastSort.current?.descending === sort?.descending;
  const placed = useMemo(
    () => (isHeld ? heldOrder(shown.current, sorted, keyOf) : sorted),
    [isHeld, sorted, keyOf],
  );
  shown.current = useMemo(() => placed.map(keyOf), [placed, keyOf]);
  lastSort.current = sort;

  // No compiler memoizes this component; the rows that it draws are memoized by hand.
  // oxlint-disable-next-line react/incompatible-library
  const virtual = useVirtualizer({
    count: placed.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    // On paper nobody scrolls.
    overscan: isPrinting ? PRINTED_ROWS : 8,
  });
  useKeptPlace({ visit, frame, active, height: virtual.getTotalSize() });

  const template = `${onSelect === undefined ? '' : `${CHECK_WIDTH}px `}${columns
    .map(({ width }, place) => (place === 0 ? `minmax(${width}px, 1fr)` : `${width}px`))
    .join(' ')}`;

  const move = (to: number) => {
    const place = Math.max(0, Math.min(placed.length - 1, to));
    setActive(place);
    virtual.scrollToIndex(place);
    // The row may not be drawn yet.
    requestAnimationFrame(() =>
      frame.current?.querySelector<HTMLElement>(`[data-place="${place}"]`)?.focus(),
    );
  };
  const toggle = (key: string) => {
    if (onSelect === undefined) return;
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };
  const focusActive = () => move(active);
  const openActive = () => {
    const row = placed[active];
    if (row !== undefined) onOpen?.(row);
  };
  const latest = useRef({ onOpen, toggle, focusActive, openActive });
  useLayoutEffect(() => {
    latest.current = { onOpen, toggle, focusActive, openActive };
  });
  const acts = useMemo(
    (): RowActs<Row> => ({
      open: (row) => latest.current.onOpen?.(row),
      toggle: (row) => latest.current.toggle(keyOf(row)),
      activate: setActive,
    }),
    [keyOf],
  );
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof HTMLElement)) return;
    if (event.target.dataset['place'] === undefined) return;
    const row = placed[active];
    const steps: Record<string, () => void> = {
      ArrowDown: () => move(active + 1),
      j: () => move(active + 1),
      ArrowUp: () => move(active - 1),
      k: () => move(active - 1),
      PageDown: () => move(active + 20),
      PageUp: () => move(active - 20),
      Home: () => move(0),
      End: () => move(placed.length - 1),
      Enter: () => row !== undefined && onOpen?.(row),
      ' ': () => row !== undefined && toggle(keyOf(row)),
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    step();
  };

  useEffect(() => {
    if (!takesKeys) return undefined;
    const onPageKey = (event: globalThis.KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (!isFreeOfControls(event.target) || !['j', 'k', 'Enter'].includes(event.key)) return;
      event.preventDefault();
      if (event.key === 'Enter') latest.current.openActive();
      else latest.current.focusActive();
    };
    document.addEventListener('keydown', onPageKey);
    return () => document.removeEventListener('keydown', onPageKey);
  }, [takesKeys]);

  const all =
    onSelect !== undefined && placed.length > 0 && placed.every((row) => selected?.has(keyOf(row)) === true);
  return (
    <div
      ref={frame}
      className={styles['frame']}
      role="grid"
      aria-label={label}
      aria-rowcount={placed.length + 1}
      aria-colcount={columns.length}
      aria-multiselectable={onSelect !== undefined}
      tabIndex={placed.length === 0 ? 0 : -1}
      onPointerEnter={() => setPointedAt(true)}
      onPointerLeave={() => setPointedAt(false)}
      onKeyDown={onKeyDown}
    >
      <div
        className={styles['header']}
        role="row"
        aria-rowindex={1}
        style={{ gridTemplateColumns: template }}
      >
        {onSelect !== undefined && (
          <div className={styles['heading']} role="columnheader">
            <Checkbox
              size="xs"
              aria-label="Select all"
              checked={all}
              indeterminate={!all && (selected?.size ?? 0) > 0}
              onChange={() => onSelect(all ? new Set() : new Set(placed.map(keyOf)))}
            />
          </div>
        )}
        {columns.map((column) => (
          <Heading key={column.id} column={column} sort={sort} onSort={onSort} />
        ))}
      </div>
      <div className={styles['rows']} role="presentation" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = placed[index];
          if (row === undefined) return null;
          return (
            <MemoizedRow
              key={keyOf(row)}
              row={row}
              columns={columns}
              acts={acts}
              place={index}
              start={start}
              height={rowHeight}
              template={template}
              isSelected={onSelect === undefined ? undefined : selected?.has(keyOf(row)) === true}
              isActive={index === Math.min(active, placed.length - 1)}
              className={rowClass?.(row)}
            />
          );
        })}
      </div>
    </div>
  );
}

function Heading<Row>({
  column,
  sort,
  onSort,
}: {
  column: DataColumn<Row>;
  sort: Sort | undefined;
  onSort: ((sort: Sort) => void) | undefined;
}) {
  const name = column.align === 'right' ? `${styles['heading']} ${styles['right']}` : styles['heading'];
  if (column.value === undefined || onSort === undefined) {
    return (
      <div className={name} role="columnheader">
        {column.header}
      </div>
    );
  }
  const isSorted = sort?.column === column.id;
  const Arrow = sort?.descending === true ? IconArrowDown : IconArrowUp;
  const order = sort?.descending === true ? ('descending' as const) : ('ascending' as const);
  return (
    <div role="columnheader" aria-sort={isSorted ? order : 'none'} style={{ display: 'grid' }}>
      <button
        type="button"
        className={name}
        // The browser does not do it within the header, which stays at the top.
        onFocus={(event) => event.currentTarget.scrollIntoView({ block: 'nearest', inline: 'nearest' })}
        onClick={() => onSort({ column: column.id, descending: isSorted && !sort.descending })}
      >
        {column.header}
        {isSorted && <Arrow size={14} aria-hidden />}
      </button>
    </div>
  );
}

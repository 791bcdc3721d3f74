import { Checkbox } from '@mantine/core';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  memo,
  type ReactNode,
} from 'react';
import styles from './data-table.module.css';
import { useIsPrinting } from './page.tsx';
import type { ColumnWindow } from './column-window.ts';
import { heldOrder, sortRows, type Sort, type SortedRows } from './held-order.ts';
import { rememberedPlace, sumOf, useColumnWindow, useIsNarrow, useKeptPlace } from './table-frame.ts';

export interface DataColumn<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** The value by which the column is sorted and which is exported. A column without it is neither. */
  value?: (row: Row) => string | number | null | undefined;
  /** In pixels. */
  width: number;
  /** Its width where there is not the room for all, by default 0.8 of its width. */
  least?: number;
  align?: 'right';
}

interface Props<Row> {
  rows: readonly Row[];
  columns: readonly DataColumn<Row>[];
  keyOf: (row: Row) => string;
  /** The accessible name of the table. */
  label: string;
  sort?: Sort | undefined;
  onSort?: (sort: Sort) => void;
  /** Enter, a double click, or a click on the name. */
  onOpen?: (row: Row) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (keys: ReadonlySet<string>) => void;
  rowHeight?: number;
  /** Identifies the visit of the page; going back to it restores the scroll position. */
  place?: string | undefined;
  /** `j`, `k` and Enter work as soon as the page is open, without a click into the table. */
  takesKeys?: boolean;
  /** A class for a row, such as one that marks an error. */
  rowClass?: (row: Row) => string | undefined;
}

const CHECK_WIDTH = 36;
const leastOf = ({ width, least = 0.8 * width }: Pick<DataColumn<never>, 'width' | 'least'>): number => least;
const CARD_LINE = 22;
const CARD_MARGIN = 14;
/** Printing more rows would block the browser. */
const PRINTED_ROWS = 5000;

/** Whether a key was pressed where it means nothing else: on the page itself or its heading. */
const isFreeOfControls = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest(
    'a, button, input, select, textarea, summary, [contenteditable], [role=grid], [role=dialog], [role=menu], [role=tab]',
  ) === null;

/**
 * A table of any length and width, of which only the visible rows and columns are drawn. By keyboard: arrows or `j` and `k` move, Home and End
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
  rowHeight: usualHeight = 32,
  rowClass,
  place: visit,
  takesKeys = false,
}: Props<Row>) {
  const frame = useRef<HTMLDivElement>(null);
  const [isPointedAt, setPointedAt] = useState(false);
  const [active, setActive] = useState(() => rememberedPlace(visit)?.active ?? 0);
  const isPrinting = useIsPrinting();
  const isOfCards = useIsNarrow(frame) && !isPrinting;
  const rowHeight = isOfCards ? columns.length * CARD_LINE + CARD_MARGIN : usualHeight;
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
    // Paper does not scroll.
    overscan: isPrinting ? PRINTED_ROWS : 8,
  });
  useKeptPlace({ visit, frame, active, height: virtual.getTotalSize() });

  useEffect(() => virtual.measure(), [virtual, rowHeight]);

  const checks = onSelect === undefined ? '' : `${CHECK_WIDTH}px `;
  const template = isOfCards
    ? `${checks}1fr`
    : checks +
      columns
        .map((column, place) => `minmax(${leastOf(column)}px, ${place === 0 ? '1fr' : `${column.width}px`})`)
        .join(' ');
  const leastWidths = useMemo(() => columns.map(leastOf), [columns]);
  const checkWidth = onSelect === undefined ? 0 : CHECK_WIDTH;
  const drawn = useColumnWindow({ frame, leastWidths, checkWidth, isWhole: isOfCards || isPrinting });
  const minWidth = isOfCards ? 0 : sumOf(leastWidths) + checkWidth;

  /** The row that has the focus with the next frame. A key that comes before it goes on from there. */
  const aim = useRef<number>(undefined);
  const move = (to: number) => {
    const place = Math.max(0, Math.min(placed.length - 1, to));
    aim.current = place;
    setActive(place);
    virtual.scrollToIndex(place);
    // The row may not be drawn yet.
    requestAnimationFrame(() => {
      if (aim.current !== place) return;
      aim.current = undefined;
      frame.current?.querySelector<HTMLElement>(`[data-place="${place}"]`)?.focus();
    });
  };
  const toggle = (key: string) => {
    if (onSelect === undefined) return;
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };
  const act = (key: string): boolean => {
    const place = aim.current ?? active;
    const row = placed[place];
    const steps: Record<string, () => void> = {
      ArrowDown: () => move(place + 1),
      j: () => move(place + 1),
      ArrowUp: () => move(place - 1),
      k: () => move(place - 1),
      PageDown: () => move(place + 20),
      PageUp: () => move(place - 20),
      Home: () => move(0),
      End: () => move(placed.length - 1),
      Enter: () => row !== undefined && onOpen?.(row),
      ' ': () => row !== undefined && toggle(keyOf(row)),
    };
    const step = steps[key];
    step?.();
    return step !== undefined;
  };
  /** A key that no row has: the first one leads to the active row. */
  const actFromOutside = (key: string) => {
    if (key === 'Enter' || aim.current !== undefined) act(key);
    else move(active);
  };
  const latest = useRef({ onOpen, toggle, actFromOutside, onSort });
  useLayoutEffect(() => {
    latest.current = { onOpen, toggle, actFromOutside, onSort };
  });
  const acts = useMemo(
    (): TableActs<Row> => ({
      open: (row) => latest.current.onOpen?.(row),
      toggle: (row) => latest.current.toggle(keyOf(row)),
      activate: setActive,
      sortBy: (to) => latest.current.onSort?.(to),
    }),
    [keyOf],
  );
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof HTMLElement)) return;
    if (event.target.dataset['place'] === undefined) return;
    if (act(event.key)) event.preventDefault();
  };

  useEffect(() => {
    if (!takesKeys) return undefined;
    const onPageKey = (event: globalThis.KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (!isFreeOfControls(event.target) || !['j', 'k', 'Enter'].includes(event.key)) return;
      event.preventDefault();
      latest.current.actFromOutside(event.key);
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
      data-cards={isOfCards || undefined}
      aria-label={label}
      aria-rowcount={placed.length + 1}
      aria-colcount={columns.length + (onSelect === undefined ? 0 : 1)}
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
        style={{ gridTemplateColumns: template, minWidth }}
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
        <Headings columns={columns} sort={sort} sortBy={onSort === undefined ? undefined : acts.sortBy} />
      </div>
      <div
        className={styles['rows']}
        role="presentation"
        style={{ height: virtual.getTotalSize(), minWidth }}
      >
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = placed[index];
          if (row === undefined) return null;
          return (
            <MemoizedRow
              key={keyOf(row)}
              row={row}
              columns={columns}
              drawn={drawn}
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

interface HeadingsProps<Row> {
  columns: readonly DataColumn<Row>[];
  sort: Sort | undefined;
  /** Absent if the table cannot be sorted. */
  sortBy: ((sort: Sort) => void) | undefined;
}

function TableHeadings<Row>({ columns, ...rest }: HeadingsProps<Row>): ReactNode {
  return columns.map((column) => <Heading key={column.id} column={column} {...rest} />);
}

function Heading<Row>({
  column,
  sort,
  sortBy,
}: Omit<HeadingsProps<Row>, 'columns'> & { column: DataColumn<Row> }) {
  const name = column.align === 'right' ? `${styles['heading']} ${styles['right']}` : styles['heading'];
  if (column.value === undefined || sortBy === undefined) {
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
        onClick={() => sortBy({ column: column.id, descending: isSorted && !sort.descending })}
      >
        {column.header}
        {isSorted && <Arrow size={14} aria-hidden />}
      </button>
    </div>
  );
}

/** The actions of a person on the table. It is the same object for the life of a table, so that rows are not rendered again for it. */
interface TableActs<Row> {
  open: (row: Row) => void;
  toggle: (row: Row) => void;
  activate: (place: number) => void;
  sortBy: (sort: Sort) => void;
}

interface RowProps<Row> {
  row: Row;
  columns: readonly DataColumn<Row>[];
  /** The columns that are drawn. The first one always is, because its link opens the row. */
  drawn: ColumnWindow;
  acts: TableActs<Row>;
  place: number;
  /** The distance from the first row, in pixels. */
  start: number;
  height: number;
  /** The columns of the grid, for CSS. */
  template: string;
  /** Absent if rows cannot be selected. */
  isSelected: boolean | undefined;
  isActive: boolean;
  className: string | undefined;
}

/** One row of a table, drawn again only if something of it has changed: many others change all the time. */
function TableRow<Row>({
  row,
  columns,
  drawn,
  acts,
  place,
  start,
  height,
  template,
  isSelected,
  isActive,
  className,
}: RowProps<Row>): ReactNode {
  return (
    <div
      data-place={place}
      className={className === undefined ? styles['row'] : `${styles['row']} ${className}`}
      role="row"
      aria-rowindex={place + 2}
      {...(isSelected === undefined ? {} : { 'aria-selected': isSelected })}
      tabIndex={isActive ? 0 : -1}
      style={{ gridTemplateColumns: template, height, transform: `translateY(${start}px)` }}
      onFocus={() => acts.activate(place)}
      onDoubleClick={() => acts.open(row)}
    >
      {isSelected !== undefined && (
        <div className={styles['cell']} role="gridcell">
          <input
            type="checkbox"
            className={styles['box']}
            tabIndex={-1}
            aria-label="Select this row"
            checked={isSelected}
            onChange={() => acts.toggle(row)}
          />
        </div>
      )}
      <Cells row={row} columns={columns} drawn={drawn} before={isSelected === undefined ? 0 : 1} />
    </div>
  );
}

interface CellsProps<Row> extends Pick<RowProps<Row>, 'row' | 'columns' | 'drawn'> {
  /** How many cells there are before the first column. */
  before: number;
}

/** The part that does not change if a row merely moves. */
function TableCells<Row>({ row, columns, drawn: { from, to }, before }: CellsProps<Row>): ReactNode {
  return columns.map(({ id, header, cell, align }, place) => {
    if (place > 0 && (place < from || place >= to)) return null;
    const column = before + place + 1;
    return (
      <div
        key={id}
        className={align === 'right' ? `${styles['cell']} ${styles['right']}` : styles['cell']}
        role="gridcell"
        aria-colindex={column}
        data-label={header}
        // The cells after it follow by themselves.
        {...(place === from && from > 1 ? { style: { gridColumnStart: column } } : {})}
      >
        {cell(row)}
      </div>
    );
  });
}

// `memo` forgets type parameters.
const Headings = memo(TableHeadings) as typeof TableHeadings;
const Cells = memo(TableCells) as typeof TableCells;
const MemoizedRow = memo(TableRow) as typeof TableRow;

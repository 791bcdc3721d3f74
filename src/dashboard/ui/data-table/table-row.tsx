import { memo, type ReactNode } from 'react';
import styles from './data-table.module.css';

export interface DataColumn<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** What the column is sorted by and what is exported; a column without it is neither. */
  value?: (row: Row) => string | number | null | undefined;
  /** In pixels. */
  width: number;
  align?: 'right';
}

/** What can be done with a row; the same object for the life of a table, so that rows are not drawn again for it. */
export interface RowActs<Row> {
  open: (row: Row) => void;
  toggle: (row: Row) => void;
  activate: (place: number) => void;
}

interface Props<Row> {
  row: Row;
  columns: readonly DataColumn<Row>[];
  acts: RowActs<Row>;
  place: number;
  /** The distance from the first row, in pixels. */
  start: number;
  height: number;
  /** The columns of the grid, for CSS. */
  template: string;
  /** Absent where rows cannot be selected. */
  isSelected: boolean | undefined;
  isActive: boolean;
  className: string | undefined;
}

/** One row of a table, drawn again only where something of it has changed: many others change all the time. */
function TableRow<Row>({
  row,
  columns,
  acts,
  place,
  start,
  height,
  template,
  isSelected,
  isActive,
  className,
}: Props<Row>): ReactNode {
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
      <Cells row={row} columns={columns} />
    </div>
  );
}

/** The part that does not change where a row merely moves. */
function TableCells<Row>({ row, columns }: Pick<Props<Row>, 'row' | 'columns'>): ReactNode {
  return columns.map(({ id, cell, align }) => (
    <div
      key={id}
      className={align === 'right' ? `${styles['cell']} ${styles['right']}` : styles['cell']}
      role="gridcell"
    >
      {cell(row)}
    </div>
  ));
}

// `memo` forgets type parameters.
const Cells = memo(TableCells) as typeof TableCells;
export const MemoizedRow = memo(TableRow) as typeof TableRow;

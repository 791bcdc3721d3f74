import { Button, Group, Pagination, Table, Text } from '@mantine/core';
import type { LinkProps } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { formatCount } from './format.ts';
import { TextLink } from './link.tsx';
import styles from './paged-table.module.css';

export interface Column<Row> {
  /** Also the key, so it is unique. */
  header: string;
  cell: (row: Row) => ReactNode;
  align?: 'right';
  /** The cell that names the row, for readers of screens. */
  isName?: true;
  width?: number | string;
}

export interface PagePosition {
  page: number;
  limit: number;
  /** Absent if the rows were not counted. */
  total?: number;
  /** Of very many, only the first are counted, so there may be more than the total says. */
  totalIsMinimum?: true;
}

/** The fewer columns a table has, the later it becomes cards: see the stylesheet. */
const sizeOf = (columns: number) => (columns <= 3 ? 'few' : columns <= 6 ? 'some' : 'many');

/** A page of a list of the API, with the way to the other pages. A column that is `false` is left out. */
export function PagedTable<Row>({
  rows,
  columns: offered,
  keyOf,
  label,
  page,
  onPage,
}: {
  rows: readonly Row[];
  columns: readonly (Column<Row> | false)[];
  keyOf: (row: Row) => string;
  /** The accessible name of the table. */
  label: string;
  page?: PagePosition | undefined;
  onPage?: ((page: number) => void) | undefined;
}) {
  const columns = offered.filter((column) => column !== false);
  return (
    <>
      <div className={styles['frame']} data-columns={sizeOf(columns.length)}>
        <Table.ScrollContainer minWidth={0}>
          {/* As cards, the parts of a table are no table to a browser, so each says what it is. */}
          <Table
            role="table"
            highlightOnHover
            verticalSpacing={5}
            aria-label={label}
            {...(styles['table'] === undefined ? {} : { className: styles['table'] })}
          >
            <Table.Thead role="rowgroup">
              <Table.Tr role="row">
                {columns.map(({ header, align, width }) => (
                  <Table.Th
                    key={header}
                    role="columnheader"
                    {...(align === undefined ? {} : { ta: align })}
                    {...(width === undefined ? {} : { w: width })}
                  >
                    {header}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody role="rowgroup">
              {rows.map((row) => (
                <Table.Tr key={keyOf(row)} role="row">
                  {columns.map(({ header, cell, align, isName }) => {
                    const props = { 'data-label': header, ...(align === undefined ? {} : { ta: align }) };
                    // The cell is one child, which stands beside the name of its column.
                    const content = <div>{cell(row)}</div>;
                    return isName === true ? (
                      <Table.Th key={header} role="rowheader" scope="row" fw={500} {...props}>
                        {content}
                      </Table.Th>
                    ) : (
                      <Table.Td key={header} role="cell" {...props}>
                        {content}
                      </Table.Td>
                    );
                  })}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </div>
      {page !== undefined && <Pages page={page} rows={rows.length} onPage={onPage} />}
    </>
  );
}

/** Which rows these are, and the way to the others. Where they are not counted, it goes page by page. */
function Pages({
  page: { page, limit, total, totalIsMinimum },
  rows,
  onPage,
}: {
  page: PagePosition;
  rows: number;
  onPage: ((page: number) => void) | undefined;
}) {
  const first = (page - 1) * limit + 1;
  const last = first + rows - 1;
  const isMinimum = totalIsMinimum === true;
  const isCounted = total !== undefined && !isMinimum;
  if (page === 1 && (isCounted ? total <= limit : rows < limit)) return null;
  return (
    <Group justify="space-between">
      <Text size="sm" c="dimmed">
        {formatCount(first)} to {formatCount(last)}
        {total !== undefined && ` of ${isMinimum ? 'more than ' : ''}${formatCount(Math.max(total, last))}`}
      </Text>
      {isCounted ? (
        <Pagination
          size="sm"
          value={page}
          total={Math.max(1, Math.ceil(total / limit))}
          {...(onPage === undefined ? {} : { onChange: onPage })}
          getControlProps={(control) => ({ 'aria-label': `${control} page` })}
        />
      ) : (
        <Steps
          onBack={page > 1 ? () => onPage?.(page - 1) : undefined}
          onNext={rows === limit ? () => onPage?.(page + 1) : undefined}
        />
      )}
    </Group>
  );
}

/** The way to the page before and to the next one, where there is one. */
export function Steps({
  back = 'Previous page',
  onBack,
  onNext,
}: {
  back?: string;
  onBack: (() => void) | undefined;
  onNext: (() => void) | undefined;
}) {
  return (
    <Group gap="xs">
      {onBack !== undefined && (
        <Button variant="default" onClick={onBack}>
          {back}
        </Button>
      )}
      {onNext !== undefined && (
        <Button variant="default" onClick={onNext}>
          Next page
        </Button>
      )}
      {onBack !== undefined && onNext === undefined && <Text size="sm">This is the last page.</Text>}
    </Group>
  );
}

interface NameCellProps extends Pick<LinkProps, 'to' | 'params'> {
  name: ReactNode;
  description?: ReactNode;
}

/** The name of what a row of a table is about, as the way to its page, with its description below. */
export function NameCell({ name, description = null, ...way }: NameCellProps) {
  return (
    <>
      {/* In a line of its own: beside other text, a link would have to be seen without its colour. */}
      <div>
        <TextLink inherit {...way}>
          {name}
        </TextLink>
      </div>
      {description !== null && (
        <Text size="xs" c="dimmed" lineClamp={1}>
          {description}
        </Text>
      )}
    </>
  );
}

/** Two lines in a cell: what it is about, and below it what is worth knowing beside that. */
export function TwoLines({ children, below }: { children: ReactNode; below: ReactNode }) {
  return (
    <>
      <div>{children}</div>
      <Text size="xs" c="dimmed" fw={400} component="div">
        {below}
      </Text>
    </>
  );
}

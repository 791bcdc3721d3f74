import { Group, Pagination, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { formatCount } from './format.ts';

export interface Column<Row> {
  /** Also the key, so it is unique. */
  header: string;
  cell: (row: Row) => ReactNode;
  align?: 'right';
  /** The cell that names the row, for readers of screens. */
  isName?: true;
  width?: number | string;
}

/** Narrower, a table scrolls to the side; one of few columns, such as one in a panel, does so later. */
const MIN_WIDTH = 480;
const MIN_COLUMN = 120;

/** A page of a list of the API, with the way to the other pages. `onOpen` makes the rows open something. */
export function PagedTable<Row>({
  rows,
  columns,
  keyOf,
  label,
  page,
  onPage,
}: {
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  /** What the table holds, for readers of screens. */
  label: string;
  page?: { page: number; limit: number; total: number } | undefined;
  onPage?: ((page: number) => void) | undefined;
}) {
  const pages = page === undefined ? 1 : Math.max(1, Math.ceil(page.total / page.limit));
  return (
    <>
      <Table.ScrollContainer minWidth={Math.min(MIN_WIDTH, columns.length * MIN_COLUMN)}>
        <Table highlightOnHover verticalSpacing={5} aria-label={label}>
          <Table.Thead>
            <Table.Tr>
              {columns.map(({ header, align, width }) => (
                <Table.Th
                  key={header}
                  {...(align === undefined ? {} : { ta: align })}
                  {...(width === undefined ? {} : { w: width })}
                >
                  {header}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => (
              <Table.Tr key={keyOf(row)}>
                {columns.map(({ header, cell, align, isName }) => {
                  const props = align === undefined ? {} : { ta: align };
                  return isName === true ? (
                    <Table.Th key={header} scope="row" fw={500} {...props}>
                      {cell(row)}
                    </Table.Th>
                  ) : (
                    <Table.Td key={header} {...props}>
                      {cell(row)}
                    </Table.Td>
                  );
                })}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {page !== undefined && page.total > page.limit && (
        <Group justify="space-between">
          <Text size="sm" c="dimmed">
            {formatCount((page.page - 1) * page.limit + 1)} to{' '}
            {formatCount(Math.min(page.page * page.limit, page.total))} of {formatCount(page.total)}
          </Text>
          <Pagination
            size="sm"
            value={page.page}
            total={pages}
            {...(onPage === undefined ? {} : { onChange: onPage })}
            getControlProps={(control) => ({ 'aria-label': `${control} page` })}
          />
        </Group>
      )}
    </>
  );
}

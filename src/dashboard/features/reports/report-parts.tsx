import { Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Column, PagedTable, PartNote } from '../../ui/index.ts';
import styles from './report.module.css';

/** The parts that the sections of a report are made of. */

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap="xs" component="section" aria-label={title}>
      <Title order={2} size="h4">
        {title}
      </Title>
      {children}
    </Stack>
  );
}

/** Figures with their names. One that is `false` is left out. */
export function Figures({
  figures,
}: {
  figures: readonly (readonly [name: string, value: string] | false)[];
}) {
  return (
    <dl className={styles['figures']}>
      {figures
        .filter((figure) => figure !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** Tables side by side, as far as there is room. */
export const Tables = ({ children }: { children: ReactNode }) => (
  <div className={styles['tables']}>{children}</div>
);

/** A small table with its title, which is left out if it has no rows. @param total  of how many it has the first */
export function SmallTable<Row>({
  title,
  rows,
  total = rows.length,
  ...table
}: {
  title: string;
  rows: readonly Row[];
  total?: number;
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
}) {
  if (rows.length === 0) return null;
  return (
    <Stack gap={4}>
      <Title order={3} size="h6">
        {title}
      </Title>
      <PagedTable label={title} rows={rows} {...table} />
      <PartNote listed={rows.length} total={total} />
    </Stack>
  );
}

/** What has to be said about figures, also on paper. */
export const Remark = ({ children }: { children: ReactNode }) => (
  <Text size="sm" component="p" m={0}>
    {children}
  </Text>
);

import { Code, List, Stack, Table, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { formatCount } from './format.ts';
import { Notice } from './notes.tsx';

export type Facts = readonly (readonly [name: string, value: ReactNode])[];

/** Facts by name; those that are not known are left out. */
export function FactTable({ label, facts }: { label: string; facts: Facts }) {
  return (
    <Table aria-label={label} verticalSpacing={4} withRowBorders={false} style={{ alignSelf: 'start' }}>
      <Table.Tbody>
        {facts.map(([name, value]) =>
          value === undefined || value === null ? null : (
            <Table.Tr key={name}>
              <Table.Th scope="row" w={160} fw={400} c="dimmed">
                {name}
              </Table.Th>
              <Table.Td style={{ wordBreak: 'break-word' }}>{value}</Table.Td>
            </Table.Tr>
          ),
        )}
      </Table.Tbody>
    </Table>
  );
}

/** Why work failed, in words, and the code by which it is found in the documentation. */
export function Cause({
  error,
  title = 'It failed',
}: {
  error: { code: string; message: string } | null;
  title?: string;
}) {
  if (error === null) return null;
  return (
    <Notice tone="bad" title={title}>
      <Text size="sm">{error.message}</Text>
      <Text size="xs">
        Code <Code>{error.code}</Code>
      </Text>
    </Notice>
  );
}

/** Paths with what went wrong with each, and how many more there are. */
export function FailedPaths({
  title,
  count,
  paths,
}: {
  title: string;
  /** `null` where only the listed ones are known. */
  count: number | null;
  paths: readonly { path: string; message: string }[];
}) {
  if ((count ?? paths.length) === 0) return null;
  const more = (count ?? paths.length) - paths.length;
  return (
    <Stack gap={4}>
      <Title order={3} size="h5">
        {title} ({count === null ? 'at least ' : ''}
        {formatCount(count ?? paths.length)})
      </Title>
      {paths.map(({ path, message }) => (
        <Text key={path} size="sm" style={{ wordBreak: 'break-all' }}>
          <Code>{path}</Code> {message}
        </Text>
      ))}
      {more > 0 && <Text size="sm">and {formatCount(more)} more</Text>}
    </Stack>
  );
}

/** The warnings of a device beside its result. It may repeat one. */
export function Warnings({ warnings, title = 'Warnings' }: { warnings: readonly string[]; title?: string }) {
  if (warnings.length === 0) return null;
  return (
    <Notice tone="warning" title={title}>
      <List size="sm">
        {[...new Set(warnings)].map((warning) => (
          <List.Item key={warning}>{warning}</List.Item>
        ))}
      </List>
    </Notice>
  );
}

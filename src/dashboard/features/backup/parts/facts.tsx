import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

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

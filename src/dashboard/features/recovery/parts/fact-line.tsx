import { SimpleGrid, Text } from '@mantine/core';
import type { ReactNode } from 'react';

type Facts = readonly (readonly [name: string, value: ReactNode])[];

/** A few facts side by side; those that are not known are left out. */
export function FactLine({ facts }: { facts: Facts }) {
  const known = facts.filter(([, value]) => value !== undefined);
  return (
    <SimpleGrid component="dl" cols={{ base: 2, md: known.length }} m={0} spacing="md">
      {known.map(([name, value]) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="sm" m={0}>
            {value}
          </Text>
        </div>
      ))}
    </SimpleGrid>
  );
}

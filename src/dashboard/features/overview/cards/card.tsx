import { Anchor, Group, Paper, Stack, Title } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** A part of the overview, with the way to the page that has more. */
export function Card({
  title,
  more,
  children,
}: {
  title: string;
  more?: { label: string; to: NonNullable<LinkProps['to']> };
  children: ReactNode;
}) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Stack gap="xs">
        <Group justify="space-between">
          <Title order={2} size="h5">
            {title}
          </Title>
          {more !== undefined && (
            <Anchor size="sm" renderRoot={(props) => <Link {...props} to={more.to} />}>
              {more.label}
            </Anchor>
          )}
        </Group>
        {children}
      </Stack>
    </Paper>
  );
}

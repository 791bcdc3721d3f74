import { Group, Stack, Text, Title } from '@mantine/core';
import { useEffect, type ReactNode } from 'react';

/** The frame of every page: its heading, its actions, and its title in the tab of the browser. */
export function Page({
  title,
  description,
  actions,
  fill = false,
  children,
}: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** The content takes the height of the window and scrolls by itself, as long tables do. */
  fill?: boolean;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Muster`;
  }, [title]);
  return (
    <Stack
      gap="sm"
      {...(fill
        ? { h: 'calc(100dvh - var(--app-shell-header-height) - 2 * var(--mantine-spacing-md))' }
        : {})}
    >
      <Group justify="space-between" align="flex-start" gap="sm">
        {/* A long description goes on in a second line, beside the actions. */}
        <Stack gap={0} flex="1 1 300px" miw={0}>
          <Title order={1} size="h3" style={{ overflowWrap: 'anywhere' }}>
            {title}
          </Title>
          {description !== undefined && (
            <Text size="sm" c="dimmed" component="div">
              {description}
            </Text>
          )}
        </Stack>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

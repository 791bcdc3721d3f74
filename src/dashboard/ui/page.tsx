import { Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useEffect, type ReactNode, useState } from 'react';
import { flushSync } from 'react-dom';

/**
 * The `ref` of a control that has the focus as soon as it is there: the first field of a form that opens by itself, or
 * what takes the place of a form that had the focus. In dialogs, `data-autofocus` does the same.
 */
export const focusOnArrival = (element: HTMLElement | null): void => element?.focus();

export interface PageProps {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** The content takes the height of the window and scrolls by itself, as long tables do. */
  fill?: boolean;
  children: ReactNode;
}

/** The frame of every page: its heading, its actions, and its title in the tab of the browser. */
export function Page({ title, description, actions, fill = false, children }: PageProps) {
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

interface PanelProps {
  title: string;
  /** How the part is called if its title alone does not say it. */
  label?: string;
  /** At the right of the title. */
  aside?: ReactNode;
  children: ReactNode;
}

/** A part of a page with a title of its own. */
export function Panel({ title, label = title, aside, children }: PanelProps) {
  return (
    <Paper withBorder p="md" component="section" aria-label={label}>
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h5">
            {title}
          </Title>
          {aside}
        </Group>
        {children}
      </Stack>
    </Paper>
  );
}

/** True while the browser makes the pages for a printer; what is drawn then is drawn before it goes on. */
export function useIsPrinting(): boolean {
  const [isPrinting, setPrinting] = useState(false);
  useEffect(() => {
    const begin = () => flushSync(() => setPrinting(true));
    const end = () => setPrinting(false);
    window.addEventListener('beforeprint', begin);
    window.addEventListener('afterprint', end);
    return () => {
      window.removeEventListener('beforeprint', begin);
      window.removeEventListener('afterprint', end);
    };
  }, []);
  return isPrinting;
}

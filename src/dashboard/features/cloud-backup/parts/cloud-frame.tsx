import { Button, Group } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Page } from '../../../ui/index.ts';

const PLACES = [
  { to: '/cloud-backup', label: 'Configurations' },
  { to: '/cloud-backup/items', label: 'Items' },
  { to: '/cloud-backup/jobs', label: 'Jobs' },
  { to: '/cloud-backup/connections', label: 'Connections' },
] as const;

/** The pages of cloud backup are one area: each has the way to the others. */
export function CloudFrame({
  title,
  description,
  actions,
  children,
}: {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  const { pathname } = useLocation();
  return (
    <Page title={title} description={description} actions={actions}>
      <Group component="nav" aria-label="Pages of cloud backup" gap={4}>
        {PLACES.map(({ to, label }) => (
          <Button
            key={to}
            size="compact-sm"
            variant={pathname === to ? 'light' : 'subtle'}
            {...(pathname === to ? {} : { color: 'gray' })}
            renderRoot={(props) => <Link {...props} to={to} activeOptions={{ exact: true }} />}
          >
            {label}
          </Button>
        ))}
      </Group>
      {children}
    </Page>
  );
}

import { Button, Group } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Page } from '../../../ui/index.ts';

const PLACES = [
  { to: '/backup', label: 'Overview' },
  { to: '/backup/jobs', label: 'Jobs' },
  { to: '/backup/snapshots', label: 'Snapshots' },
  { to: '/backup/databases', label: 'Databases' },
  { to: '/backup/machines', label: 'Machines' },
  { to: '/backup/restores', label: 'Restores' },
  { to: '/backup/instant-boots', label: 'Instant boots' },
  { to: '/backup/bare-metal', label: 'Bare metal' },
  { to: '/backup/configurations', label: 'Configurations' },
  { to: '/backup/verifications', label: 'Verifications' },
  { to: '/backup/slas', label: 'SLAs' },
  { to: '/backup/keys', label: 'Encryption keys' },
] as const;

/** The pages of backup are one area: each has the way to the others. */
export function BackupFrame({
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
      <Group component="nav" aria-label="Pages of backup" gap={4}>
        {PLACES.map(({ to, label }) => {
          const isHere = to === '/backup' ? pathname === to : pathname.startsWith(to);
          return (
            <Button
              key={to}
              size="compact-sm"
              variant={isHere ? 'light' : 'subtle'}
              {...(isHere ? {} : { color: 'gray' })}
              renderRoot={(props) => <Link {...props} to={to} activeOptions={{ exact: to === '/backup' }} />}
            >
              {label}
            </Button>
          );
        })}
      </Group>
      {children}
    </Page>
  );
}

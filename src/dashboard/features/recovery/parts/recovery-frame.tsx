import { Button, Group } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Page } from '../../../ui/index.ts';

const PLACES = [
  { to: '/recovery', label: 'Plans', below: '/recovery/plans/' },
  { to: '/recovery/executions', label: 'Executions', below: '/recovery/executions/' },
] as const;

/** The pages of recovery are one area: each has the way to the others. */
export function RecoveryFrame({
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
      <Group component="nav" aria-label="Pages of recovery" gap={4}>
        {PLACES.map(({ to, label, below }) => {
          const isHere = pathname === to || pathname.startsWith(below);
          return (
            <Button
              key={to}
              size="compact-sm"
              variant={isHere ? 'light' : 'subtle'}
              {...(isHere ? {} : { color: 'gray' })}
              renderRoot={(props) => <Link {...props} to={to} activeOptions={{ exact: true }} />}
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

import { ActionIcon, AppShell, Burger, Group, NavLink, ScrollArea, Text, Tooltip } from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import { IconKeyboard, IconSearch } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { lazy, Suspense, useCallback, type ReactNode } from 'react';
import { useHubConnection, useReturnOfConnection } from '../../live/index.ts';
import { NextStep } from '../../features/getting-started/index.ts';
import { refusalOf, useMe } from '../../session/index.ts';
import { NAVIGATION } from '../navigation.ts';
import { UpdateNotice } from '../update/update-notice.tsx';
import { ConnectionPill } from './connection-pill.tsx';
import { JobsTray } from './jobs-tray.tsx';
import { openPalette } from './palette-control.ts';
import { ScopeSelector } from './scope-selector.tsx';
import { UserMenu } from './user-menu.tsx';

const Overlays = lazy(() =>
  import('./overlays.tsx').then(({ Overlays: component }) => ({ default: component })),
);

/** What surrounds every page: the rail, the scope, the state of the connection, jobs, and the person. */
export function Frame({ children }: { children: ReactNode }) {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const [showsKeys, keys] = useDisclosure(false);
  useHubConnection();
  useReadAgainAfterLoss();
  useHotkeys([
    ['mod+K', openPalette],
    ['shift+?', keys.open, { usePhysicalKeys: false }],
  ]);
  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: 200, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <a className="muster-skip" href="#content">
        Skip to the content
      </a>
      <AppShell.Header px="sm">
        <Group h="100%" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="sm" wrap="nowrap">
            <Burger
              opened={isOpen}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label="Show the navigation"
            />
            <Text fw={700} size="lg" visibleFrom="xs">
              Muster
            </Text>
            <ScopeSelector />
          </Group>
          <Group gap={6} wrap="nowrap">
            <UpdateNotice />
            <ConnectionPill />
            <JobsTray />
            <Tooltip label="Search (Ctrl K)">
              <ActionIcon variant="subtle" color="gray" onClick={openPalette} aria-label="Search">
                <IconSearch size={18} />
              </ActionIcon>
            </Tooltip>
            <Tooltip label="Keys (?)">
              <ActionIcon
                variant="subtle"
                color="gray"
                onClick={keys.open}
                aria-label="Show the keys"
                visibleFrom="sm"
              >
                <IconKeyboard size={18} />
              </ActionIcon>
            </Tooltip>
            <UserMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p={6} aria-label="Main">
        <Rail onFollow={close} />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <NextStep />
        {children}
      </AppShell.Main>
      <Suspense>
        <Overlays showsKeys={showsKeys} onKeysClose={keys.close} />
      </Suspense>
    </AppShell>
  );
}

/** What was read while there was no connection is old or has failed. */
function useReadAgainAfterLoss(): void {
  const queries = useQueryClient();
  useReturnOfConnection(useCallback(() => void queries.invalidateQueries(), [queries]));
}

/** Pages that the person may not see are left out; a link to one says why. */
function Rail({ onFollow }: { onFollow: () => void }) {
  const me = useMe();
  return (
    <ScrollArea>
      {NAVIGATION.filter(({ requires }) => refusalOf(me, requires) === undefined).map(
        ({ label, to, icon: Icon }) => (
          <NavLink
            key={label}
            label={label}
            leftSection={<Icon size={18} aria-hidden />}
            py={6}
            onClick={onFollow}
            renderRoot={(props) => (
              <Link
                {...props}
                to={to}
                activeOptions={{ exact: to === '/', includeSearch: false }}
                activeProps={{ 'data-active': true, 'aria-current': 'page' }}
              />
            )}
          />
        ),
      )}
    </ScrollArea>
  );
}

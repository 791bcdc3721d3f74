import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  NavLink,
  ScrollArea,
  Text,
  Tooltip,
  Badge,
  Select,
  Button,
} from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import {
  IconKeyboard,
  IconSearch,
  IconBolt,
  IconPlugConnectedX,
  IconRefresh,
  IconUserCircle,
  IconSparkles,
} from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useRouter } from '@tanstack/react-router';
import { lazy, Suspense, useCallback, type ReactNode, useEffect, useState } from 'react';
import {
  useHubConnection,
  useReturnOfConnection,
  type ConnectionState,
  useConnection,
} from '../live/index.ts';
import { NextStep } from '../features/getting-started/index.ts';
import { refusalOf, useMe } from '../session.ts';
import { formatDuration, formatTime } from '../ui/index.ts';
import { useOrganizations, useSites } from '../directory.ts';
import { useScope } from '../routing.ts';
import { NAVIGATION, openPalette } from './navigation.ts';
import { JobsTray } from './jobs-tray.tsx';
import { isOutdated, reload, reloadOnce, takeUpdated } from './new-version.ts';

const Overlays = lazy(() =>
  import('./overlays.tsx').then(({ Overlays: component }) => ({ default: component })),
);

const UserMenu = lazy(() =>
  import('./user-menu.tsx').then(({ UserMenu: component }) => ({ default: component })),
);

/** Stands in the place of the menu until that is loaded. */
const UserButton = () => (
  <ActionIcon variant="subtle" color="gray" aria-hidden tabIndex={-1}>
    <IconUserCircle size={20} />
  </ActionIcon>
);

/** The frame of every page: the rail, the scope, the state of the connection, jobs, and the person. */
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
            <Suspense fallback={<UserButton />}>
              <UserMenu />
            </Suspense>
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

/** Fetches all queries again after a loss of the connection: they are old, or have failed. */
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
            // All of them fit on a screen of 800 pixels; on a phone they are touched.
            py={{ base: 6, sm: 3 }}
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

/** Selects the scope of the pages: everything, one organization, or one site of it. It stays on other pages. */
function ScopeSelector() {
  const me = useMe();
  const { orgId, siteId } = useScope();
  const navigate = useNavigate();
  const organizations = useOrganizations();
  const sites = useSites(orgId ?? me.orgId);
  const choose = (scope: { org?: string | undefined; site?: string | undefined }) =>
    void navigate({
      to: '.',
      search: (previous) => ({ ...previous, org: undefined, site: undefined, ...scope }),
    });
  return (
    <>
      {me.scope !== 'organization' && (
        <Select
          w={{ base: 160, xs: 190 }}
          aria-label="Organization"
          placeholder="All organizations"
          data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
          value={orgId ?? null}
          onChange={(org) => choose({ org: org ?? undefined })}
          searchable
          clearable
          nothingFoundMessage="No such organization"
          limit={200}
        />
      )}
      {sites.length > 1 && (
        <Select
          w={150}
          visibleFrom="sm"
          aria-label="Site"
          placeholder="All sites"
          data={sites.map(({ id, name }) => ({ value: id, label: name }))}
          value={siteId ?? null}
          onChange={(site) => choose({ org: orgId, site: site ?? undefined })}
          searchable
          clearable
          limit={200}
        />
      )}
    </>
  );
}

interface Shown {
  text: string;
  /** In a sentence. */
  meaning: string;
  color: string;
  icon: typeof IconBolt;
}

/** Whether what is shown is kept up to date; if not, since when it is old. */
function ConnectionPill() {
  const connection = useConnection();
  const {
    text,
    meaning,
    color,
    icon: Icon,
  } = shownOf(connection, useSeconds(connection.state !== 'live' && connection.state !== 'stopped'));
  return (
    <Tooltip label={meaning} multiline maw={300}>
      <Badge
        variant="light"
        color={color}
        tt="none"
        leftSection={<Icon size={12} aria-hidden />}
        {...(connection.state === 'live' ? { className: 'muster-sign-only' } : {})}
        role="status"
      >
        {text}
      </Badge>
    </Tooltip>
  );
}

/** The time by a clock that moves on every second while it is shown. */
function useSeconds(isShown: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isShown) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isShown]);
  return now;
}

function shownOf(connection: ConnectionState, now: number): Shown {
  if (connection.state === 'live') return connection.isWhole ? LIVE : LIVE_IN_PART;
  if (connection.state === 'stopped') return OFFLINE;
  const { since } = connection;
  if (since === undefined) return CONNECTING;
  return {
    text: `Reconnecting · data is ${formatDuration(Math.max(0, now - since))} old`,
    meaning: `The connection was lost at ${formatTime(new Date(since))}. The page shows what was known then, and tries again by itself.`,
    color: 'orange',
    icon: IconPlugConnectedX,
  };
}

const LIVE: Shown = {
  text: 'Live',
  meaning: 'The page shows changes as they happen.',
  color: 'teal',
  icon: IconBolt,
};
const LIVE_IN_PART: Shown = {
  text: 'Live in part',
  meaning:
    'This server does not reach the other servers. Devices that are connected to those are shown as they were last known. The page catches up by itself.',
  color: 'orange',
  icon: IconPlugConnectedX,
};
const CONNECTING: Shown = {
  text: 'Connecting',
  meaning: 'The page connects to the server.',
  color: 'gray',
  icon: IconRefresh,
};
const OFFLINE: Shown = {
  text: 'Offline',
  meaning: 'There is no connection to the server.',
  color: 'orange',
  icon: IconPlugConnectedX,
};

/**
 * Reports that the server has been updated while this page was open. Current work is not interrupted; the next
 * page comes with the new version.
 */
function UpdateNotice() {
  const router = useRouter();
  const [isOld, setOld] = useState(false);
  const look = useCallback(() => {
    void isOutdated().then((answer) => {
      if (answer === true) setOld(true);
    });
  }, []);
  useReturnOfConnection(look);
  useEffect(() => {
    if (!isOld) return undefined;
    return router.subscribe('onBeforeLoad', ({ pathChanged }) => {
      // The router writes the address of the next page as soon as it has called back.
      if (pathChanged) setTimeout(() => reloadOnce({ isUpdate: true }));
    });
  }, [isOld, router]);
  useEffect(() => {
    if (!takeUpdated()) return;
    import('@mantine/notifications').then(
      ({ notifications }) =>
        notifications.show({ message: 'Muster has been updated. This is the new version.' }),
      () => undefined,
    );
  }, []);
  if (!isOld) return null;
  return (
    <Tooltip
      label="Muster has been updated. The next page that you open comes with the new version."
      multiline
      maw={300}
    >
      <Button
        size="compact-xs"
        variant="light"
        leftSection={<IconSparkles size={12} aria-hidden />}
        onClick={() => reload({ isUpdate: true })}
      >
        New version
      </Button>
    </Tooltip>
  );
}

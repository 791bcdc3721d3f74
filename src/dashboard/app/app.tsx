import { MantineProvider, createTheme, type CSSVariablesResolver, Button, Center } from '@mantine/core';
import type { NotificationsProps } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import {
  RouterProvider,
  createRoute,
  createRouter,
  Outlet,
  useLocation,
  useMatches,
  useNavigate,
} from '@tanstack/react-router';
import { lazy, Suspense, useMemo, type ComponentType, useEffect, useState } from 'react';
import { createQueryClient } from '../api/index.ts';
import { ReplaceSession } from '../features/sign-in/index.ts';
import { useSession, openSession, refusalOf, type Me } from '../session.ts';
import { useIsPrinting, asError, Failure, Loading, Empty, Page, Forbidden, TextLink } from '../ui/index.ts';
import { publicPages, signedInPages } from '../features/index.ts';
import { publicRoute, rootRoute, signedInRoute } from '../routing.ts';
import { useHubSoon } from '../live/index.ts';
import { isMissingPart, reloadOnce, whenReachable } from './new-version.ts';
import { Frame } from './frame.tsx';

/** Messages come after the page, which is there without them too. */
const Notifications = lazy<ComponentType<NotificationsProps>>(() =>
  import('@mantine/notifications').then(
    ({ Notifications: component }) => ({ default: component }),
    () => ({ default: () => null }),
  ),
);

export function App() {
  const session = useSession();
  const isPrinting = useIsPrinting();
  const personId = session.state === 'signed_in' ? session.me.user.id : undefined;
  // A new person gets a new cache, so that nothing of the last one is shown.
  // oxlint-disable-next-line react-hooks/exhaustive-deps
  const queries = useMemo(() => createQueryClient(), [personId]);
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={readableColors}
      defaultColorScheme="auto"
      // Browsers leave out backgrounds, and light text on white paper cannot be read.
      {...(isPrinting ? { forceColorScheme: 'light' } : {})}
    >
      <QueryClientProvider client={queries}>
        <Suspense>
          <Notifications position="bottom-right" limit={4} />
        </Suspense>
        {session.state === 'replacing' ? (
          <Suspense>
            <ReplaceSession session={session} />
          </Suspense>
        ) : (
          <RouterProvider router={router} />
        )}
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** Dense by default, with the fonts of the system: nothing is fetched from elsewhere. */
const theme = createTheme({
  primaryColor: 'blue',
  // Light text on the middle shade is too faint to read (WCAG 2.2, 1.4.3).
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  respectReducedMotion: true,
  defaultRadius: 'sm',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace',
  components: {
    Button: { defaultProps: { size: 'xs' } },
    TextInput: { defaultProps: { size: 'xs' } },
    PasswordInput: { defaultProps: { size: 'xs' } },
    FileInput: { defaultProps: { size: 'xs' } },
    ColorInput: { defaultProps: { size: 'xs' } },
    NumberInput: { defaultProps: { size: 'xs' } },
    Textarea: { defaultProps: { size: 'xs' } },
    Autocomplete: { defaultProps: { size: 'xs' } },
    Select: { defaultProps: { size: 'xs' } },
    MultiSelect: { defaultProps: { size: 'xs' } },
    TagsInput: { defaultProps: { size: 'xs' } },
    Checkbox: { defaultProps: { size: 'xs' } },
    Switch: { defaultProps: { size: 'xs' } },
    SegmentedControl: { defaultProps: { size: 'xs' } },
    Modal: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Drawer: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Table: { defaultProps: { fz: 'sm' } },
    // Where a popover holds its side while it is open, Mantine 9 replaces how it is placed twice each time it opens, and
    // each replacement keeps the one before it in memory, with the elements that were shown.
    Popover: { defaultProps: { preventPositionChangeWhenVisible: false } },
    Tooltip: { defaultProps: { openDelay: 300, withArrow: true } },
  },
});

/** Small text in these colours is too faint as Mantine has it (WCAG 2.2, 1.4.3: at least 4.5 to 1). */
const readableColors: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': '#5c636a',
    '--mantine-color-error': '#a82222',
    // The background of blue text that the pointer is over.
    '--mantine-color-blue-light-hover': '#c2e5ff',
    '--mantine-color-teal-light-color': '#06674a',
    '--mantine-color-orange-light-color': '#9c3309',
    '--mantine-color-red-light-color': '#a82222',
    '--mantine-color-yellow-light-color': '#7d4400',
    '--mantine-color-green-light-color': '#1f6a2f',
  },
  dark: { '--mantine-color-dimmed': '#a6a6a6', '--mantine-color-error': '#ff8787' },
});

signedInRoute.update({ component: SignedIn });

/** An address that no page has, with the frame around what it says. */
const unknownRoute = createRoute({ getParentRoute: () => signedInRoute, path: '$', component: NotFound });

const router = createRouter({
  routeTree: rootRoute.addChildren([
    publicRoute.addChildren(publicPages),
    signedInRoute.addChildren([...signedInPages, unknownRoute]),
  ]),
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading />,
  defaultErrorComponent: ({ error, reset }) =>
    isMissingPart(asError(error)) ? <MissingPart /> : <Failure error={asError(error)} retry={reset} />,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}

function NotFound() {
  return (
    <Page title="There is no such page">
      <Empty title="Nothing is at this address" action={<TextLink to="/">Go to the overview</TextLink>}>
        It may be mistyped, or what it showed may have been deleted.
      </Empty>
    </Page>
  );
}

/** The frame if a user is signed in; otherwise the sign-in page, which leads back here afterwards. */
function SignedIn() {
  const session = useSession();
  useHubSoon();
  if (session.state === 'opening') return <Loading what="Opening Muster" />;
  if (session.state === 'unreachable') return <Unreachable />;
  if (session.state === 'signed_out') {
    return <ToLogin ended={session.ended} />;
  }
  return (
    <Frame>
      <Permitted me={session.me} />
    </Frame>
  );
}

const TRY_AGAIN_MS = 5_000;

function Unreachable() {
  useEffect(() => {
    const timer = setInterval(() => void openSession(), TRY_AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <Center mih="100dvh">
      <Empty
        title="The server cannot be reached"
        action={<Button onClick={() => void openSession()}>Try again</Button>}
      >
        Check the network of this computer, and whether Muster is running. The page tries again by itself.
      </Empty>
    </Center>
  );
}

/** Leads to the sign-in page, once. */
function ToLogin({ ended }: { ended: boolean }) {
  const { href } = useLocation();
  const navigate = useNavigate();
  useEffect(() => {
    const search = { ...(href === '/' ? {} : { redirect: href }), ...(ended ? { ended } : {}) };
    void navigate({ to: '/login', search, replace: true });
    // The address changes on the way there.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return <Loading what="Opening the sign-in" />;
}

/** The page, or why this person may not see it. */
function Permitted({ me }: { me: Me }) {
  const { permission, title = 'Muster' } = useMatches().at(-1)?.staticData ?? {};
  const refusal = refusalOf(me, permission);
  if (refusal === undefined) return <Outlet />;
  return (
    <Page title={title}>
      <Forbidden reason={refusal} isGrantable={typeof permission === 'string'} />
    </Page>
  );
}

const TEXTS = {
  asking: 'The page asks the server why.',
  away: 'The server cannot be reached. The page is loaded again as soon as it answers.',
  updated: 'Muster has been updated. The page is loaded again, with the new version.',
  failed: 'The server answers, but a part of the page does not arrive. Its log may say why.',
};

/** In place of a page of which a part could not be loaded. */
function MissingPart() {
  const [state, setState] = useState<keyof typeof TEXTS>('asking');
  useEffect(() => {
    const watching = new AbortController();
    const watch = async () => {
      const isUpdate = await whenReachable(watching.signal, () => setState('away'));
      if (watching.signal.aborted) return;
      setState(reloadOnce({ isUpdate }) && isUpdate ? 'updated' : 'failed');
    };
    // Aborted only when the component is unmounted.
    watch().catch(() => undefined);
    return () => watching.abort();
  }, []);
  return (
    <Empty
      title="A part of this page could not be loaded"
      action={
        state === 'failed' && <Button onClick={() => window.location.reload()}>Load the page again</Button>
      }
    >
      <span role="status">{TEXTS[state]}</span>
    </Empty>
  );
}

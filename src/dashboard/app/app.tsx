import { MantineProvider } from '@mantine/core';
import type { NotificationsProps } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { lazy, Suspense, useMemo, type ComponentType } from 'react';
import { createQueryClient } from '../api/index.ts';
import { ReplaceSession } from '../features/sign-in/index.ts';
import { useSession } from '../session/index.ts';
import { router } from './router.tsx';
import { readableColors, theme } from './theme.ts';

/** Messages come after the page, which is there without them too. */
const Notifications = lazy<ComponentType<NotificationsProps>>(() =>
  import('@mantine/notifications').then(
    ({ Notifications: component }) => ({ default: component }),
    () => ({ default: () => null }),
  ),
);

export function App() {
  const session = useSession();
  const personId = session.state === 'signed_in' ? session.me.user.id : undefined;
  // What one person has read is not shown to the next one.
  // oxlint-disable-next-line react-hooks/exhaustive-deps
  const queries = useMemo(() => createQueryClient(), [personId]);
  return (
    <MantineProvider theme={theme} cssVariablesResolver={readableColors} defaultColorScheme="auto">
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

import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { createQueryClient } from '../api/index.ts';
import { router } from './router.tsx';
import { readableColors, theme } from './theme.ts';

/** Messages come after the page. */
const Notifications = lazy(() =>
  import('@mantine/notifications').then(({ Notifications: component }) => ({ default: component })),
);

const queries = createQueryClient();

export function App() {
  return (
    <MantineProvider theme={theme} cssVariablesResolver={readableColors} defaultColorScheme="auto">
      <QueryClientProvider client={queries}>
        <Suspense>
          <Notifications position="bottom-right" limit={4} />
        </Suspense>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  );
}

import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { signedInRoute } from '../../routing.ts';

const systemRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/system',
  staticData: { title: 'System health' },
  component: lazyRouteComponent(() => import('./system-health-page.tsx'), 'SystemHealthPage'),
});

export const systemHealthPages = [systemRoute] as const;

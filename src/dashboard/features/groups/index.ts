import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

export { MEMBERSHIP_REASONS } from './membership-reasons.ts';

const page = z.number().int().positive().optional().catch(undefined);
const q = z.string().optional().catch(undefined);

const groupsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/groups',
  validateSearch: z.object({ q, page }),
  staticData: { title: 'Groups', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./groups-page.tsx'), 'GroupsPage'),
});

const groupRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/groups/$groupId',
  validateSearch: z.object({ tab: z.enum(['devices', 'changes']).optional().catch(undefined), q, page }),
  staticData: { title: 'Group', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./group-page.tsx'), 'GroupPage'),
});

export const groupPages = [groupsRoute, groupRoute] as const;

import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';
import { CATEGORIES } from './categories.ts';

const text = z.string().max(255).optional().catch(undefined);
const day = z.iso.date().optional().catch(undefined);

const auditRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/audit',
  validateSearch: z.object({
    q: text,
    user: text,
    action: text,
    resource: text,
    category: z.enum(CATEGORIES).optional().catch(undefined),
    from: day,
    to: day,
    page: z.number().int().positive().optional().catch(undefined),
    /** The entry that is open. */
    entry: z.uuid().optional().catch(undefined),
  }),
  staticData: { title: 'Audit', permission: 'audit:read' },
  component: lazyRouteComponent(() => import('./audit-page.tsx'), 'AuditPage'),
});

const reportsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/audit/reports',
  validateSearch: z.object({
    report: z.enum(['activity', 'security', 'compliance']).optional().catch(undefined),
    from: day,
    to: day,
  }),
  staticData: { title: 'Audit reports', permission: 'audit:read' },
  component: lazyRouteComponent(() => import('./reports-page.tsx'), 'ReportsPage'),
});

const chainRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/audit/chain',
  staticData: { title: 'Audit chain', permission: 'audit:read' },
  component: lazyRouteComponent(() => import('./chain-page.tsx'), 'ChainPage'),
});

export const auditPages = [auditRoute, reportsRoute, chainRoute] as const;

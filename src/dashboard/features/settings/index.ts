import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const companyRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings',
  staticData: { title: 'Settings' },
  component: lazyRouteComponent(() => import('./company-page.tsx'), 'CompanyPage'),
});

const securityRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/security',
  staticData: { title: 'Security settings' },
  component: lazyRouteComponent(() => import('./security-page.tsx'), 'SecurityPage'),
});

const brandingRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/branding',
  staticData: { title: 'Branding' },
  component: lazyRouteComponent(() => import('./branding-page.tsx'), 'BrandingPage'),
});

const retentionRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/retention',
  staticData: { title: 'Retention' },
  component: lazyRouteComponent(() => import('./retention-page.tsx'), 'RetentionPage'),
});

const customFieldsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/custom-fields',
  validateSearch: z.object({ page: z.number().int().positive().optional().catch(undefined) }),
  staticData: { title: 'Custom fields', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./custom-fields-page.tsx'), 'CustomFieldsPage'),
});

const ssoRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/sso',
  staticData: { title: 'Single sign-on' },
  component: lazyRouteComponent(() => import('./sso-page.tsx'), 'SsoPage'),
});

const providerRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/sso/$providerId',
  staticData: { title: 'Identity provider' },
  component: lazyRouteComponent(() => import('./sso-provider-page.tsx'), 'ProviderPage'),
});

const page = z.number().int().positive().optional().catch(undefined);

const webhooksRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/webhooks',
  validateSearch: z.object({ page }),
  staticData: { title: 'Webhooks', permission: 'webhooks:read' },
  component: lazyRouteComponent(() => import('./webhooks-page.tsx'), 'WebhooksPage'),
});

const webhookRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/settings/webhooks/$webhookId',
  validateSearch: z.object({
    page,
    status: z.enum(['pending', 'delivered', 'failed']).optional().catch(undefined),
  }),
  staticData: { title: 'Webhook', permission: 'webhooks:read' },
  component: lazyRouteComponent(() => import('./webhook-page.tsx'), 'WebhookPage'),
});

export const settingsPages = [
  companyRoute,
  securityRoute,
  brandingRoute,
  retentionRoute,
  customFieldsRoute,
  ssoRoute,
  providerRoute,
  webhooksRoute,
  webhookRoute,
] as const;

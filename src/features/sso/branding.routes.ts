import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { SsoLimits } from './sso-limits.ts';
import { LoginBranding, LoginBrandingInput, LoginContext } from './branding.schema.ts';
import { readBranding, replaceBranding, type LoginContexts } from './branding.service.ts';

/** Room for the largest logo in base64 and the other fields. */
const BODY_LIMIT = 400_000;

export interface BrandingParts {
  loginContexts: LoginContexts;
  ssoLimits: Pick<SsoLimits, 'loginContext'>;
}

export const brandingRoutes = ({ loginContexts, ssoLimits }: BrandingParts): RouteGroup => ({
  name: 'Login page',
  description: 'The content of the login page before a person has signed in.',
  routes: [
    route({
      method: 'get',
      path: '/auth/login-context',
      summary: 'Read the content of the login page',
      description:
        'On a self-hosted server (setting DEPLOYMENT) with exactly one active partner, returns the branding and the single sign-on of that partner. All other servers return nulls. A change takes effect within a minute.',
      access: 'public',
      before: ssoLimits.loginContext,
      response: LoginContext,
      errors: ['rate_limited', 'unavailable'],
      handler: ({ ctx }) => loginContexts.read(ctx),
    }),
    route({
      method: 'get',
      path: '/partners/me/login-branding',
      summary: 'Read the branding of the login page of the caller’s partner',
      access: { scopes: ['partner'] },
      response: LoginBranding,
      handler: ({ ctx }) => readBranding(ctx),
    }),
    route({
      method: 'put',
      path: '/partners/me/login-branding',
      summary: 'Replace the branding of the login page of the caller’s partner',
      description:
        'Fields that are left out are cleared. The caller needs access to all organizations of the partner. The server does not fetch an https:// logo; pages that must not request anything from other servers show `data:` logos only.',
      access: { scopes: ['partner'], permission: 'organizations:write' },
      body: LoginBrandingInput,
      bodyLimit: BODY_LIMIT,
      response: LoginBranding,
      errors: ['payload_too_large'],
      handler: ({ ctx, body }) => replaceBranding(ctx, body, { changed: () => loginContexts.forget() }),
      audit: {
        action: 'partner.login_branding.update',
        resource: 'partner',
        note: ({ partnerId }) => ({ partnerId, resourceId: partnerId }),
      },
    }),
  ],
});

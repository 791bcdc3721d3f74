import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { SsoLimits } from '../flow/sso-limits.ts';
import { LoginBranding, LoginBrandingInput, LoginContext } from './branding.schema.ts';
import { readBranding, replaceBranding } from './branding.service.ts';
import type { LoginContexts } from './login-context.ts';

/** A logo at its largest, in base64, with the rest of the body. */
const BODY_LIMIT = 400_000;

export interface BrandingParts {
  loginContexts: LoginContexts;
  ssoLimits: Pick<SsoLimits, 'loginContext'>;
}

export const brandingRoutes = ({ loginContexts, ssoLimits }: BrandingParts): RouteGroup => ({
  name: 'Sign-in page',
  description: 'What the sign-in page shows before anybody has signed in.',
  routes: [
    route({
      method: 'get',
      path: '/auth/login-context',
      summary: 'Read what the sign-in page shows',
      description:
        'Branding and single sign-on of the partner, on a self-hosted server (DEPLOYMENT) with exactly one active partner; nulls on all others. A change shows within a minute.',
      access: 'public',
      before: ssoLimits.loginContext,
      response: LoginContext,
      errors: ['rate_limited', 'unavailable'],
      handler: ({ ctx }) => loginContexts.read(ctx),
    }),
    route({
      method: 'get',
      path: '/partners/me/login-branding',
      summary: 'Read the branding of the caller’s partner on the sign-in page',
      access: { scopes: ['partner'] },
      response: LoginBranding,
      handler: ({ ctx }) => readBranding(ctx),
    }),
    route({
      method: 'put',
      path: '/partners/me/login-branding',
      summary: 'Replace the branding of the caller’s partner on the sign-in page',
      description:
        'Fields that are left out are cleared. Needs access to all organizations. An https:// logo is not fetched by the server; pages without outside requests show `data:` logos only.',
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

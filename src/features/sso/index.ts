import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { type BrandingParts, brandingRoutes } from './branding.routes.ts';
import { checkDomainsDaily, clearExpiredSignIns } from './sso.work.ts';
import { domainRoutes } from './domain.routes.ts';
import type { DomainParts } from './domain.service.ts';
import { linkRoutes } from './link.routes.ts';
import type { LinkStartParts } from './link.service.ts';
import { checkProvidersRegularly } from './health.work.ts';
import { providerTestRoutes, providerRoutes } from './provider.routes.ts';
import type { ProviderParts } from './provider.service.ts';
import { ssoRetention } from './sso.model.ts';
import { type SamlRouteParts, samlRoutes, signInRoutes, type SignInRouteParts } from './sign-in.routes.ts';

export { createLoginContexts } from './branding.service.ts';
export { breakGlassGuard, listEnforced, unlockProvider, createPasswordPolicy } from './enforcement.ts';
export type { GovernedPerson } from './sso.queries.ts';
export { SEALED_SSO_COLUMNS } from './sso.model.ts';
export { createOidcProtocol } from './oidc.ts';
export { createSamlProtocol } from './saml.ts';
export { newExchangeCode, createStartSignIn, stateCookie } from './sign-in-state.ts';
export { ssoLimits } from './sso-limits.ts';

export const feature = defineFeature({
  name: 'sso',
  routes: (
    parts: ProviderParts & SignInRouteParts & SamlRouteParts & DomainParts & LinkStartParts & BrandingParts,
  ) => [
    providerRoutes(parts),
    providerTestRoutes(parts),
    signInRoutes(parts),
    samlRoutes(parts),
    domainRoutes(parts),
    linkRoutes(parts),
    brandingRoutes(parts),
  ],
  jobs(
    parts: Parameters<typeof checkDomainsDaily>[0] &
      Parameters<typeof checkProvidersRegularly>[0] &
      Parameters<typeof clearExpiredSignIns>[0],
  ) {
    checkDomainsDaily(parts);
    checkProvidersRegularly(parts);
    clearExpiredSignIns(parts);
  },
  tables: [
    bounded('sso_providers', CREATED_BY_PEOPLE),
    cascade('user_sso_identities', 'users'),
    bounded('sso_domains', CREATED_BY_PEOPLE),
    bounded('partner_login_branding', 'a partner has at most one row'),
    ...byRules(ssoRetention),
  ],
});

import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { type BrandingParts, brandingRoutes } from './branding/branding.routes.ts';
import { checkDomainsDaily } from './domains/domain-checks.job.ts';
import { domainRoutes } from './domains/domain.routes.ts';
import type { DomainParts } from './domains/domain.service.ts';
import { clearExpiredSignIns } from './flow/clear-expired.job.ts';
import { linkRoutes } from './links/link.routes.ts';
import type { LinkStartParts } from './links/link.service.ts';
import { checkProvidersRegularly } from './health/health.job.ts';
import { providerTestRoutes } from './health/provider-test.routes.ts';
import { providerRoutes } from './administration/provider.routes.ts';
import type { ProviderParts } from './administration/provider.service.ts';
import { ssoRetention } from './retention.ts';
import { type SamlRouteParts, samlRoutes } from './saml/saml.routes.ts';
import { signInRoutes, type SignInRouteParts } from './sign-in/sso.routes.ts';

export { createLoginContexts } from './branding/login-context.ts';
export { breakGlassGuard } from './enforcement/break-glass-guard.ts';
export type { GovernedPerson } from './enforcement/governs.queries.ts';
export { listEnforced, unlockProvider } from './enforcement/operator.ts';
export { createPasswordPolicy } from './enforcement/password-policy.ts';
export { SEALED_SSO_COLUMNS } from './sealed-columns.ts';
export { createOidcProtocol } from './oidc/oidc-protocol.ts';
export { createSamlProtocol } from './saml/saml-protocol.ts';
export { newExchangeCode } from './sign-in/exchange.service.ts';
export { ssoLimits } from './flow/sso-limits.ts';
export { createStartSignIn } from './flow/start-sign-in.ts';
export { stateCookie } from './flow/state-cookie.ts';

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

import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { CONFIGURE_SIGN_IN } from '../administration/provider.routes.ts';
import type { ProviderParts } from '../administration/provider.service.ts';
import { METADATA_MAX, ProviderTest, ProviderTestResult } from './provider-test.schema.ts';
import { prepareTest, testProvider } from './provider-test.service.ts';

export const providerTestRoutes = (parts: Pick<ProviderParts, 'ssoFetch'>): RouteGroup => ({
  name: 'Tests of single sign-on providers',
  description: 'Tests whether a provider can be reached and used, and imports SAML metadata.',
  routes: [
    route({
      method: 'post',
      path: '/sso/providers/:id/test',
      summary: 'Test a provider, and optionally import the metadata of a SAML provider',
      description:
        'Of an OIDC provider, the discovery document, issuer, endpoints and keys are checked; of a SAML provider, the certificate and the SSO URL. If the body contains metadata, its entity ID, SSO URL and certificates replace those of the SAML provider.',
      access: CONFIGURE_SIGN_IN,
      params: IdParams,
      body: ProviderTest,
      bodyLimit: 2 * METADATA_MAX,
      response: ProviderTestResult,
      errors: ['conflict', 'sso_not_proven'],
      prepare: ({ ctx, params, body }) => prepareTest(ctx, params.id, body, parts),
      handler: ({ ctx, params, prepared }) => testProvider(ctx, params.id, prepared),
      audit: {
        action: 'sso.provider.test',
        resource: 'sso_provider',
        note: ({ provider, success, checks }) => ({
          ...auditSubject(provider),
          details: { success, failed: checks.filter(({ ok }) => !ok).map(({ name }) => name) },
        }),
      },
    }),
  ],
});

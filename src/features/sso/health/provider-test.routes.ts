import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { CONFIGURE_SIGN_IN } from '../administration/provider.routes.ts';
import type { ProviderParts } from '../administration/provider.service.ts';
import { METADATA_MAX, ProviderTest, ProviderTestResult } from './provider-test.schema.ts';
import { prepareTest, testProvider } from './provider-test.service.ts';

export const providerTestRoutes = (parts: Pick<ProviderParts, 'ssoFetch'>): RouteGroup => ({
  name: 'Tests of single sign-on providers',
  description: 'Whether a provider can be reached and used, and the import of its metadata.',
  routes: [
    route({
      method: 'post',
      path: '/sso/providers/:id/test',
      summary: 'Test a provider, and fill a SAML provider from its metadata',
      description:
        'Of OIDC: its discovery document, issuer, endpoints and keys. Of SAML: its certificate and address. With metadata, the entity ID, address and certificates of a SAML provider are replaced by those in it.',
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

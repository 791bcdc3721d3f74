import {
  toProviderResponse,
  changeStatus,
  createProvider,
  deleteProvider,
  listProviders,
  prepareChange,
  prepareNew,
  type ProviderParts,
  readProvider,
  updateProvider,
} from './provider.service.ts';
import { z } from 'zod';
import type { Context } from '../../platform/context.ts';
import { peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { LoginContexts } from './branding.service.ts';
import { listPresets } from './provider-presets.ts';
import {
  NewProvider,
  PresetList,
  ProviderChange,
  ProviderQuery,
  SsoProvider,
  StatusChange,
  METADATA_MAX,
  ProviderTest,
  ProviderTestResult,
} from './provider.schema.ts';
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

/** Only people with a second factor: an API key, which has none, must not decide how people sign in. */
export const CONFIGURE_SIGN_IN = { ...peopleOfEveryScope('organizations:write'), mfa: true } as const;

interface RouteParts extends ProviderParts {
  loginContexts: Pick<LoginContexts, 'forget'>;
}

export const providerRoutes = (parts: RouteParts): RouteGroup => ({
  name: 'Single sign-on providers',
  description:
    'The identity providers with which the people of organizations and partners sign in. Changing a provider needs every permission that a sign-in with it can give: all permissions that the members of the organization have, or `*:*` and access to all organizations for a partner’s provider. Every change of a provider ends the sign-ins with it that are in progress.',
  routes: [
    route({
      method: 'get',
      path: '/sso/presets',
      summary: 'List presets of well-known identity providers',
      access: 'signed-in',
      response: PresetList,
      handler: listPresets,
    }),
    route({
      method: 'get',
      path: '/sso/providers',
      summary: 'List providers',
      description:
        'Lists the providers of the organizations that the caller can access, and of the caller’s partner.',
      access: 'signed-in',
      query: ProviderQuery,
      response: pageOf(SsoProvider),
      async handler({ ctx, query }) {
        const { data, pagination } = await listProviders(ctx, query);
        return { data: data.map(toProviderResponse), pagination };
      },
    }),
    route({
      method: 'get',
      path: '/sso/providers/:id',
      summary: 'Read a provider',
      access: 'signed-in',
      params: IdParams,
      response: SsoProvider,
      handler: async ({ ctx, params }) => toProviderResponse(await readProvider(ctx, params.id)),
    }),
    route({
      method: 'post',
      path: '/sso/providers',
      summary: 'Create a provider',
      description:
        'A new provider is inactive until POST /sso/providers/:id/status changes its status. If the type is `oidc` and an issuer is given, the endpoints are read from the discovery document of the issuer; if that fails, the provider is created without them.',
      access: CONFIGURE_SIGN_IN,
      body: NewProvider,
      response: SsoProvider,
      status: 201,
      errors: ['limit_reached', 'sso_not_proven'],
      prepare: ({ ctx, body }) => prepareNew(ctx, body, parts),
      async handler({ ctx, body, prepared }) {
        showSoon(ctx, parts);
        return toProviderResponse(await createProvider(ctx, body, prepared, parts));
      },
      audit: {
        action: 'sso.provider.create',
        resource: 'sso_provider',
        note: (provider) => ({
          ...auditSubject(provider),
          details: { type: provider.type, status: provider.status, preset: provider.preset },
        }),
      },
    }),
    route({
      method: 'patch',
      path: '/sso/providers/:id',
      summary: 'Change a provider',
      description:
        'If the issuer changes, the endpoints are read from the discovery document of the new issuer; if that fails, nothing is changed. If a change selects another identity provider (another issuer, client id, endpoint, entity ID or SSO URL), a person has to sign in with it once before it can be enforced. Another issuer or entity ID also ends the sessions that the provider has opened, and removes its links to accounts.',
      access: CONFIGURE_SIGN_IN,
      params: IdParams,
      body: ProviderChange,
      response: SsoProvider,
      errors: ['conflict', 'sso_not_proven'],
      prepare: ({ ctx, params, body }) => prepareChange(ctx, params.id, body, parts),
      async handler({ ctx, params, body, prepared }) {
        showSoon(ctx, parts);
        return toProviderResponse(await updateProvider(ctx, params.id, body, prepared, parts));
      },
      audit: {
        action: 'sso.provider.update',
        resource: 'sso_provider',
        note: (provider, { body }) => ({
          ...auditSubject(provider),
          details: { changedFields: Object.keys(body) },
        }),
      },
    }),
    route({
      method: 'delete',
      path: '/sso/providers/:id',
      summary: 'Delete a provider',
      description:
        'Also ends the sessions that it has opened, and deletes the sign-ins with it that are in progress and its links to accounts.',
      access: CONFIGURE_SIGN_IN,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler({ ctx, params }) {
        showSoon(ctx, parts);
        return deleteProvider(ctx, params.id);
      },
      audit: {
        action: 'sso.provider.delete',
        resource: 'sso_provider',
        note: ({ provider }) => ({ ...auditSubject(provider), details: { type: provider.type } }),
      },
    }),
    route({
      method: 'post',
      path: '/sso/providers/:id/status',
      summary: 'Activate or deactivate a provider',
      description:
        'Only a provider that is fully configured can become active. People sign in with active providers only, and the sessions that it has opened end when it is deactivated.',
      access: CONFIGURE_SIGN_IN,
      params: IdParams,
      body: StatusChange,
      response: SsoProvider,
      errors: ['sso_not_proven'],
      async handler({ ctx, params, body }) {
        showSoon(ctx, parts);
        return toProviderResponse(await changeStatus(ctx, params.id, body));
      },
      audit: {
        action: 'sso.provider.status.update',
        resource: 'sso_provider',
        note: (provider) => ({ ...auditSubject(provider), details: { status: provider.status } }),
      },
    }),
  ],
});

/** The login page names the active provider of a partner, and whether it is the only way in. */
const showSoon = (ctx: Context, { loginContexts }: RouteParts) =>
  ctx.afterCommit(() => loginContexts.forget());

import { NoBody, KeptDocument, madeOnce } from '../../platform/http/file-answer.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { refreshCookie, type AuthService } from '../auth/index.ts';
import {
  type CallbackParts,
  finishSignIn,
  beginLogin,
  checkSso,
  type LoginParts,
} from './sign-in.service.ts';
import { exchangeCode, browserCookie } from './sign-in-state.ts';
import {
  CallbackQuery,
  ExchangeRequest,
  ExchangeResponse,
  LoginQuery,
  OrgParams,
  PartnerParams,
  SsoCheck,
} from './sso.schema.ts';
import type { SsoLimits } from './sso-limits.ts';
import { z } from 'zod';
import { Id } from '../../platform/http/fields.ts';
import { serviceProviderMetadata, type SamlParts, storeResponse, SamlForm } from './saml.ts';

export type SignInRouteParts = Omit<CallbackParts, 'browsers'> &
  LoginParts & { auth: Pick<AuthService, 'tokensOf'>; ssoLimits: SsoLimits; secureCookies: boolean };

export function signInRoutes(parts: SignInRouteParts): RouteGroup {
  const { ssoLimits: limits } = parts;
  const cookie = refreshCookie(parts);
  const browsers = browserCookie(parts);
  const withBrowser = { ...parts, browsers };
  return {
    name: 'Single sign-on',
    description: 'Routes for signing in with the identity provider of an organization or a partner.',
    routes: [
      route({
        method: 'get',
        path: '/sso/check/:orgId',
        summary: 'Check if an organization has single sign-on',
        access: 'public',
        before: limits.check,
        params: OrgParams,
        response: SsoCheck,
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, params }) => checkSso(ctx, params.orgId, parts.baseUrl()),
      }),
      route({
        method: 'get',
        path: '/sso/login/:orgId',
        summary: 'Begin a sign-in with the provider of an organization',
        description:
          'Redirects to the identity provider, and sets the cookie `svc_sso_state`. If the provider cannot be used, redirects to the login page with `error` and `reason`.',
        access: 'public',
        before: limits.login,
        params: OrgParams,
        query: LoginQuery,
        redirects: true,
        response: NoBody,
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, params: { orgId }, query, reply }) =>
          beginLogin({ ctx, reply }, { orgId }, query.redirect, parts),
      }),
      route({
        method: 'get',
        path: '/sso/login/partner/:partnerId',
        summary: 'Begin a sign-in with the provider of a partner',
        description:
          'Works like the route for organizations. If the partner has several active providers, the oldest one is used.',
        access: 'public',
        before: limits.login,
        params: PartnerParams,
        query: LoginQuery,
        redirects: true,
        response: NoBody,
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, params: { partnerId }, query, reply }) =>
          beginLogin({ ctx, reply }, { partnerId }, query.redirect, parts),
      }),
      route({
        method: 'get',
        path: '/sso/callback',
        summary: 'Finish a sign-in, when the browser returns from the identity provider',
        description:
          'Redirects to the dashboard with `#ssoCode=` and a code for POST /sso/exchange, or to the login page with `error` and `reason`. If the sign-in was to link an identity, redirects to the profile page.',
        access: 'public',
        query: CallbackQuery,
        redirects: true,
        response: NoBody,
        // Taken in the handler, which redirects to the login page that says so.
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, query, cookies, reply }) =>
          finishSignIn({ ctx, query, cookies, reply }, withBrowser),
      }),
      route({
        method: 'post',
        path: '/sso/exchange',
        summary: 'Exchange the code of a single sign-on for tokens',
        description:
          'The code can be used once, within two minutes. A browser can only use the code of a sign-in that it has finished itself, which the cookie `svc_sso_browser` of the callback shows. Sets the refresh cookie `svc_refresh`; the body contains the refresh token as well, for clients without cookies.',
        access: 'public',
        before: limits.exchange,
        unaudited: 'the callback has audited the sign-in',
        body: ExchangeRequest,
        response: ExchangeResponse,
        errors: [
          'unauthenticated',
          'conflict',
          'partner_inactive',
          'ip_not_allowed_at_sign_in',
          'rate_limited',
          'unavailable',
        ],
        handler: async ({ ctx, body, reply, cookies, isFromBrowser }) => {
          const browser = isFromBrowser ? { browser: { hash: browsers.hashIn(cookies) } } : {};
          const answer = await exchangeCode(ctx, { ...body, ...browser }, parts);
          cookie.set(reply, answer.refreshToken);
          return answer;
        },
      }),
    ],
  };
}

export interface SamlRouteParts {
  baseUrl: () => string;
  saml: Pick<SamlParts, 'entityId' | 'acsUrl'>;
  ssoLimits: Pick<SsoLimits, 'acs' | 'metadata'>;
}

const METADATA_TYPE = 'application/samlmetadata+xml';
/** Enough for most responses of 256 kB: base64 makes them longer, and a form encodes `+`, `/` and `=` as three characters. */
const FORM_LIMIT = 400 << 10;

export function samlRoutes({ baseUrl, saml, ssoLimits }: SamlRouteParts): RouteGroup {
  const metadata = madeOnce(
    () =>
      new KeptDocument(
        METADATA_TYPE,
        serviceProviderMetadata({ entityId: saml.entityId(), acsUrl: saml.acsUrl() }),
      ),
  );
  return {
    name: 'SAML',
    description:
      'The metadata of Muster for SAML 2.0 identity providers, and the address for their responses.',
    routes: [
      route({
        method: 'get',
        path: '/sso/saml/metadata',
        summary: 'Read the SAML metadata of Muster as a service provider',
        description: 'The metadata is the same for every identity provider.',
        access: 'public',
        before: ssoLimits.metadata,
        errors: ['rate_limited', 'unavailable'],
        query: z.object({
          providerId: Id.optional().describe(
            'Ignored. Identity providers that need a separate metadata address for each entry can use it.',
          ),
        }),
        response: NoBody,
        media: [METADATA_TYPE],
        handler: () => metadata(),
      }),
      route({
        method: 'post',
        path: '/sso/saml/acs',
        summary: 'Receive the response of a SAML identity provider',
        description:
          'Redirects to GET /sso/callback. If the response belongs to no sign-in in progress, redirects to the login page with `error=session_expired`; this also happens to sign-ins that began at the identity provider.',
        access: 'public',
        unaudited: 'the callback, to which the browser is redirected, audits the sign-in',
        before: ssoLimits.acs,
        bodyType: 'form',
        bodyLimit: FORM_LIMIT,
        body: SamlForm,
        redirects: true,
        response: NoBody,
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => storeResponse(ctx, body, { baseUrl }),
      }),
    ],
  };
}

import { NoBody } from '../../../platform/http/browser-answer.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { refreshCookie, type AuthService } from '../../auth/index.ts';
import { type CallbackParts, finishSignIn } from './callback.service.ts';
import { exchangeCode } from './exchange.service.ts';
import { beginLogin, checkSso, type LoginParts } from './login.service.ts';
import {
  CallbackQuery,
  ExchangeRequest,
  ExchangeResponse,
  LoginQuery,
  OrgParams,
  PartnerParams,
  SsoCheck,
} from './sso.schema.ts';
import { browserCookie } from '../flow/browser-cookie.ts';
import type { SsoLimits } from '../flow/sso-limits.ts';

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

import { z } from 'zod';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { LinkOptions, LinkStart, ProviderParams, SsoIdentities } from './sso.schema.ts';
import {
  deleteIdentity,
  linkOptions,
  type LinkStartParts,
  listIdentities,
  startLink,
} from './link.service.ts';

export const linkRoutes = (parts: LinkStartParts): RouteGroup => ({
  name: 'Linked identities',
  description: 'The links between the caller’s account and accounts at identity providers.',
  routes: [
    route({
      method: 'get',
      path: '/sso/link/options',
      summary: 'List the providers that your account can be linked to',
      description: 'Lists the active providers of your own organization or partner.',
      access: 'person',
      response: LinkOptions,
      handler: ({ ctx }) => linkOptions(ctx),
    }),
    route({
      method: 'post',
      path: '/sso/link/start/:providerId',
      summary: 'Begin to link your account to a provider',
      description:
        'Sets the cookie `svc_sso_state`. Send the browser to `url`. After the sign-in there, it is redirected to the profile page of the dashboard, with `error` and `reason` in the address if the link was refused. Allows 20 requests in 10 minutes.',
      access: 'person',
      unaudited: 'the callback audits the link, after the provider has identified the person',
      transaction: false,
      params: ProviderParams,
      response: LinkStart,
      errors: ['conflict', 'rate_limited', 'unavailable'],
      handler: ({ ctx, params, reply }) => startLink({ ctx, reply }, params.providerId, parts),
    }),
    route({
      method: 'get',
      path: '/sso/identities',
      summary: 'List the identities that your account is linked to',
      access: 'person',
      response: SsoIdentities,
      handler: ({ ctx }) => listIdentities(ctx),
    }),
    route({
      method: 'delete',
      path: '/sso/identities/:id',
      summary: 'Remove a link of your account',
      description:
        'Refused if you could not sign in afterwards: the link is the last one to an active provider, and you have no password, or must not use it because single sign-on is enforced.',
      access: 'person',
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deleteIdentity(ctx, params.id),
      audit: {
        action: 'sso.identity.unlink',
        resource: 'user',
        note: ({ user, providerId, provider }) => ({
          resourceId: user.id,
          resourceName: user.email,
          details: { provider: { id: providerId, name: provider?.name ?? null } },
        }),
      },
    }),
  ],
});

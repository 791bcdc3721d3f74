import { z } from 'zod';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { refreshCookie } from '../auth/index.ts';
import {
  AddressConfirmation,
  NextSteps,
  PartnerRegistered,
  PartnerRegistration,
  UserRegistration,
} from './registration.schema.ts';
import type { Registration } from './registration.service.ts';

export function registrationRoutes(parts: {
  registration: Registration;
  secureCookies: boolean;
}): RouteGroup {
  const { registration } = parts;
  const cookie = refreshCookie(parts);
  return {
    name: 'Registration',
    description: 'How providers and people come in by themselves, where the server lets them.',
    routes: [
      route({
        method: 'post',
        path: '/auth/register-partner',
        summary: 'Register a provider with its first administrator',
        description:
          'The provider waits for approval (`pending`), and a mailed link confirms the address of its administrator. An address that has an account is answered with general next steps. At most 3 an hour from one address.',
        access: 'public',
        unaudited: 'writes partner.create itself: there is no caller before',
        before: (client) => registration.beforePartner(client),
        body: PartnerRegistration,
        response: PartnerRegistered,
        status: 201,
        errors: ['registration_disabled', 'rate_limited', 'unavailable'],
        handler: async ({ ctx, body, reply }) => {
          const result = await registration.registerPartner(ctx, body);
          if (result.refreshToken !== undefined) cookie.set(reply, result.refreshToken);
          return result.answer;
        },
      }),
      route({
        method: 'post',
        path: '/auth/register',
        summary: 'Register an account, which waits for an invitation',
        description:
          'Mails a link to the address. The account is made when POST /auth/verify-email has confirmed it. Answers the same whether the address was free or is somebody’s. At most 5 an hour from one address.',
        access: 'public',
        unaudited: 'the account belongs to no organization yet, so there is no trail to write to',
        before: (client) => registration.beforeUser(client),
        body: UserRegistration,
        response: NextSteps,
        status: 201,
        errors: ['registration_disabled', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => registration.registerUser(ctx, body),
      }),
      route({
        method: 'post',
        path: '/auth/verify-email',
        summary: 'Confirm the address of a registration',
        description:
          'Takes the token of the link in the mail, once and within 24 hours, together with the password that was chosen. Open also where registration is switched off.',
        access: 'public',
        unaudited:
          'writes partner.create itself where it makes a provider; an account alone has no trail yet',
        body: AddressConfirmation,
        response: z.object({ success: z.literal(true) }),
        errors: ['not_found', 'unauthenticated', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => registration.confirm(ctx, body),
      }),
    ],
  };
}

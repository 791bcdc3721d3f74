import { z } from 'zod';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { refreshCookie } from '../auth/index.ts';
import {
  AddressConfirmation,
  NextSteps,
  PartnerRegistered,
  PartnerRegistration,
  RegistrationState,
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
    description: 'Self-registration of providers and users, if the server allows it.',
    routes: [
      route({
        method: 'get',
        path: '/auth/registration',
        summary: 'Read whether people can register themselves',
        access: 'public',
        before: registration.beforeQuestion,
        response: RegistrationState,
        errors: ['rate_limited'],
        handler: () => ({ enabled: registration.isEnabled }),
      }),
      route({
        method: 'post',
        path: '/auth/register-partner',
        summary: 'Register a provider with its first administrator',
        description:
          'The provider waits for approval (`pending`), and a mailed link confirms the address of its administrator. For an address that has an account, the response describes general next steps only. At most 3 registrations an hour from one IP address.',
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
        summary: 'Register an account that can be invited',
        description:
          'Mails a link to the address. The account is created when POST /auth/verify-email confirms the address. The response is the same whether or not the address has an account. At most 5 registrations an hour from one IP address.',
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
          'Requires the token of the mailed link, which works once within 24 hours, and the password chosen at registration. Available also where registration is disabled.',
        access: 'public',
        unaudited: 'writes partner.create itself if it creates a provider; an account alone has no trail yet',
        body: AddressConfirmation,
        response: z.object({ success: z.literal(true) }),
        errors: ['not_found', 'unauthenticated', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => registration.confirm(ctx, body),
      }),
    ],
  };
}

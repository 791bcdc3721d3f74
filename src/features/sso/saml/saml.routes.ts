import { z } from 'zod';
import { Document, NoBody } from '../../../platform/http/browser-answer.ts';
import { Id } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { SsoLimits } from '../flow/sso-limits.ts';
import { serviceProviderMetadata } from './adapter.ts';
import { parkResponse, SamlForm } from './park-response.ts';
import type { SamlParts } from './saml-protocol.ts';

export interface SamlRouteParts {
  baseUrl: () => string;
  saml: Pick<SamlParts, 'entityId' | 'acsUrl'>;
  ssoLimits: Pick<SsoLimits, 'acs'>;
}

const METADATA_TYPE = 'application/samlmetadata+xml';
/** An answer of 256 kB in base64, whose `+`, `/` and `=` a form writes as three characters, is seldom longer. */
const FORM_LIMIT = 400 << 10;

export function samlRoutes({ baseUrl, saml, ssoLimits }: SamlRouteParts): RouteGroup {
  return {
    name: 'SAML',
    description: 'What SAML 2.0 identity providers need of this server, and where they send their answers.',
    routes: [
      route({
        method: 'get',
        path: '/sso/saml/metadata',
        summary: 'Read the metadata of this service provider',
        description: 'The same for every identity provider.',
        access: 'public',
        query: z.object({
          providerId: Id.optional().describe('For identity providers that want one address for each.'),
        }),
        response: NoBody,
        media: [METADATA_TYPE],
        handler: () =>
          new Document(
            METADATA_TYPE,
            serviceProviderMetadata({ entityId: saml.entityId(), acsUrl: saml.acsUrl() }),
          ),
      }),
      route({
        method: 'post',
        path: '/sso/saml/acs',
        summary: 'Receive the answer of a SAML identity provider',
        description:
          'Redirects to the callback, or to the login page with `error=session_expired` where no such sign-in is under way, as with one that began at the identity provider.',
        access: 'public',
        unaudited: 'the callback, where the browser goes next, records how the sign-in ends',
        before: ssoLimits.acs,
        bodyType: 'form',
        bodyLimit: FORM_LIMIT,
        body: SamlForm,
        redirects: true,
        response: NoBody,
        errors: ['rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => parkResponse(ctx, body, { baseUrl }),
      }),
    ],
  };
}

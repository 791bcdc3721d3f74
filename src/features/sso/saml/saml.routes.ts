import { z } from 'zod';
import { NoBody } from '../../../platform/http/browser-answer.ts';
import { Id } from '../../../platform/http/fields.ts';
import { KeptDocument, madeOnce } from '../../../platform/http/files/kept-document.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { SsoLimits } from '../flow/sso-limits.ts';
import { serviceProviderMetadata } from './adapter.ts';
import { parkResponse, SamlForm } from './park-response.ts';
import type { SamlParts } from './saml-protocol.ts';

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
        handler: ({ ctx, body }) => parkResponse(ctx, body, { baseUrl }),
      }),
    ],
  };
}

import express, { type Request, type Response } from 'express';
import samlp from 'samlp';
import { startHttpsServer } from './https-server.ts';
import { type SigningKey, signingKey } from './saml-certificates.ts';

export const EMAIL_FORMAT = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress';
export const PERSISTENT_FORMAT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent';

/** The metadata need not list any. */
const NO_CLAIMS = { prototype: { metadata: [] } };

/** Who is signed in at the identity provider, and what it says about that person. */
export interface SamlPerson {
  nameId: string;
  /** Email address when absent. */
  nameIdFormat?: string;
  attributes?: Readonly<Record<string, string | readonly string[]>>;
  /** AuthnContextClassRef, such as `https://refeds.org/profile/mfa`. */
  contextClass?: string;
}

/** A SAML identity provider on loopback: samlp, over HTTPS (`TEST_AUTHORITY`), with the HTTP-Redirect binding. */
export interface SamlIdp {
  entityId: string;
  ssoUrl: string;
  /** PEM: what it signs with now. */
  readonly certificate: string;
  metadataUrl: string;
  /** The AuthnRequests that it got, as the query of its SSO URL. */
  requests: URLSearchParams[];
  /** Who signs in from now on; `undefined`: it refuses everybody. */
  person: SamlPerson | undefined;
  /** It signs with another key from now on. */
  useKey(key: SigningKey): void;
  close(): Promise<void>;
}

/** Its SSO URL answers with the form that a browser sends to the ACS: the person is signed in there already. */
export async function startSamlIdp(): Promise<SamlIdp> {
  const app = express();
  const server = await startHttpsServer(app);
  const url = `https://127.0.0.1:${server.port}`;

  let key = signingKey('signing');
  const idp: SamlIdp = {
    entityId: `${url}/metadata`,
    ssoUrl: `${url}/sso`,
    metadataUrl: `${url}/metadata`,
    get certificate() {
      return key.certificate;
    },
    requests: [],
    person: { nameId: 'ada@example.com' },
    useKey(next) {
      key = next;
    },
    close: () => server.stop(),
  };
  const issuer = () => ({ issuer: idp.entityId, cert: key.certificate, key: key.key });
  app.get('/sso', (request, response, next) => {
    idp.requests.push(new URL(request.url, url).searchParams);
    answer(request, response, next, { issuer: issuer(), person: idp.person });
  });
  app.get('/metadata', (request, response, next) => {
    const options = { ...issuer(), redirectEndpointPath: '/sso', postEndpointPath: '/sso' };
    samlp.metadata({ ...options, profileMapper: NO_CLAIMS })(request, response, next);
  });
  return idp;
}

function answer(
  request: Request,
  response: Response,
  next: (error?: unknown) => void,
  {
    issuer,
    person,
  }: { issuer: { issuer: string; cert: string; key: string }; person: SamlPerson | undefined },
): void {
  samlp.parseRequest(request, {}, (error, asked) => {
    const acsUrl = asked?.assertionConsumerServiceURL;
    if (error !== null || asked?.id === undefined || acsUrl === undefined) {
      response.status(400).send('This is no AuthnRequest.');
      return;
    }
    if (person === undefined) {
      samlp.sendError({
        ...issuer,
        destination: acsUrl,
        inResponseTo: asked.id,
        RelayState: new URLSearchParams(request.url.split('?')[1]).get('RelayState') ?? '',
        error: { code: 'urn:oasis:names:tc:SAML:2.0:status:Responder', description: 'RequestDenied' },
        getPostURL: (_request, done) => done(null, acsUrl),
      })(request, response, next);
      return;
    }
    const { nameId, nameIdFormat = EMAIL_FORMAT, attributes = {}, contextClass } = person;
    samlp.auth({
      ...issuer,
      destination: acsUrl,
      recipient: acsUrl,
      lifetimeInSeconds: 300,
      ...(contextClass === undefined ? {} : { authnContextClassRef: contextClass }),
      getUserFromRequest: () => person,
      profileMapper: () => ({
        getClaims: () => attributes,
        getNameIdentifier: () => ({ nameIdentifier: nameId, nameIdentifierFormat: nameIdFormat }),
      }),
      getPostURL: (_audience, _dom, _request, done) => done(null, acsUrl),
    })(request, response, next);
  });
}

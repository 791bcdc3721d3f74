import { createHash, randomBytes } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { getOverHttps, startHttpsServer } from './https-server.ts';

type Json = Record<string, unknown>;

/** Ways in which the provider departs from an honest one. Each gets what an honest one would send. */
export interface Departures {
  /** Claims of the ID token, before it is signed. */
  idToken?: (claims: JWTPayload) => JWTPayload;
  /** The ID token; `undefined`: there is none. */
  sign?: (claims: JWTPayload) => string | undefined | Promise<string | undefined>;
  token?: (answer: Json) => unknown;
  userinfo?: (answer: Json) => unknown;
  jwks?: (answer: { keys: JWK[] }) => unknown;
  discovery?: (document: Json) => unknown;
  /** The query that the browser brings back. */
  callback?: (query: URLSearchParams) => void;
  /** Answers in place of an endpoint, such as `/token`. */
  endpoint?: Record<string, RequestListener>;
}

/**
 * An OpenID provider over HTTPS which lies as a test wants it to. Without `departures` it is honest and strict: it checks
 * the secret of the client, the verifier of PKCE and the redirect URI, and each code works once. Everyone who comes to
 * `/authorize` is signed in at once, as `person`.
 */
export interface ScriptedOidcProvider {
  issuer: string;
  port: number;
  clientId: string;
  clientSecret: string;
  tokenAuthMethod: 'client_secret_basic' | 'client_secret_post';
  person: { sub: string } & Json;
  departures: Departures;
  /** What ID tokens are signed with. */
  key: { private: CryptoKey; public: JWK; kid: string };
  /** Replaces the key. */
  rotateKey(alg?: 'RS256' | 'ES256' | 'EdDSA'): Promise<void>;
  /** Paths that were asked for, in order. */
  paths: string[];
  /** From the URL that Muster sends the browser to, to the URL that it is sent back to. */
  signIn(authorizationUrl: string): Promise<string>;
  stop(): Promise<void>;
}

interface Grant {
  nonce: string | null;
  challenge: string | null;
  redirectUri: string;
}

/** @param host  of the issuer: `idp.test`, which a name server of the test has to know, or a loopback address */
export async function startScriptedOidcProvider({ host = '127.0.0.1' } = {}): Promise<ScriptedOidcProvider> {
  const grants = new Map<string, Grant>();
  const server = await startHttpsServer((request, response) => {
    const url = new URL(request.url ?? '/', self.issuer);
    self.paths.push(url.pathname);
    const scripted = self.departures.endpoint?.[url.pathname];
    if (scripted === undefined) {
      answer(url, request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
    } else scripted(request, response);
  });
  const issuer = `https://${host}:${server.port}`;

  async function answer(url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { departures } = self;
    switch (url.pathname) {
      case '/.well-known/openid-configuration': {
        const document = discoveryDocument(issuer);
        return json(response, departures.discovery?.(document) ?? document);
      }
      case '/jwks': {
        const keys = { keys: [self.key.public] };
        return json(response, departures.jwks?.(keys) ?? keys);
      }
      case '/authorize':
        return authorize(url.searchParams, response);
      case '/token':
        return token(request, response);
      case '/userinfo': {
        if (request.headers.authorization !== 'Bearer access-token') return json(response, {}, 401);
        const claims = { ...self.person };
        return json(response, departures.userinfo?.(claims) ?? claims);
      }
      default:
        response.writeHead(404).end();
    }
  }

  function authorize(query: URLSearchParams, response: ServerResponse): void {
    const code = randomBytes(16).toString('hex');
    const redirectUri = query.get('redirect_uri') ?? '';
    grants.set(code, { nonce: query.get('nonce'), challenge: query.get('code_challenge'), redirectUri });
    const back = new URL(redirectUri);
    back.search = new URLSearchParams({ code, state: query.get('state') ?? '', iss: issuer }).toString();
    self.departures.callback?.(back.searchParams);
    response.writeHead(303, { location: back.href }).end();
  }

  async function token(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = new URLSearchParams(await bodyOf(request));
    if (!isClient(self, request.headers.authorization, form)) {
      return json(response, { error: 'invalid_client' }, 401);
    }
    const grant = grants.get(form.get('code') ?? '');
    grants.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (grant?.challenge !== challenge || grant.redirectUri !== form.get('redirect_uri')) {
      return json(response, { error: 'invalid_grant' }, 400);
    }
    const { departures, person } = self;
    const now = Math.floor(Date.now() / 1000);
    const honest: JWTPayload = {
      ...person,
      iss: issuer,
      aud: self.clientId,
      iat: now,
      exp: now + 300,
      nonce: grant.nonce,
    };
    const claims = departures.idToken?.(honest) ?? honest;
    const idToken =
      departures.sign === undefined ? await signed(claims, self.key) : await departures.sign(claims);
    const tokens = {
      access_token: 'access-token',
      refresh_token: 'refresh-token',
      token_type: 'Bearer',
      expires_in: 3600,
      ...(idToken === undefined ? {} : { id_token: idToken }),
    };
    json(response, departures.token?.(tokens) ?? tokens);
  }

  const self: ScriptedOidcProvider = {
    issuer,
    port: server.port,
    clientId: 'muster: client',
    clientSecret: 'secret:+/&=% ~',
    tokenAuthMethod: 'client_secret_basic',
    person: { sub: 'subject-1', email: 'ann@customer.test', email_verified: true, name: 'Ann Example' },
    departures: {},
    key: await newKey('RS256'),
    async rotateKey(alg = 'RS256') {
      self.key = await newKey(alg);
    },
    paths: [],
    async signIn(authorizationUrl) {
      const { headers, status } = await getOverHttps(authorizationUrl);
      if (headers.location === undefined) throw new Error(`${authorizationUrl} answered ${status}.`);
      return headers.location;
    },
    stop: () => server.stop(),
  };
  return self;
}

const discoveryDocument = (issuer: string): Json => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  userinfo_endpoint: `${issuer}/userinfo`,
  jwks_uri: `${issuer}/jwks`,
  authorization_response_iss_parameter_supported: true,
  response_types_supported: ['code'],
  id_token_signing_alg_values_supported: ['RS256'],
  token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
});

/** RFC 6749 2.3.1, read by itself and not by the code under test. */
function isClient(
  { clientId, clientSecret, tokenAuthMethod }: ScriptedOidcProvider,
  authorization: string | undefined,
  form: URLSearchParams,
): boolean {
  if (tokenAuthMethod === 'client_secret_post') {
    const isPlain = authorization === undefined;
    return isPlain && form.get('client_id') === clientId && form.get('client_secret') === clientSecret;
  }
  const [, base64 = ''] = /^Basic (.+)$/.exec(authorization ?? '') ?? [];
  const [id = '', secret = ''] = Buffer.from(base64, 'base64').toString('latin1').split(':');
  const decoded = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));
  return decoded(id) === clientId && decoded(secret) === clientSecret && !form.has('client_secret');
}

async function newKey(alg: 'RS256' | 'ES256' | 'EdDSA'): Promise<ScriptedOidcProvider['key']> {
  const pair = await generateKeyPair(alg, { extractable: true });
  const kid = randomBytes(6).toString('hex');
  return {
    private: pair.privateKey,
    public: { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' },
    kid,
  };
}

/** As an honest provider signs. */
export const signed = (
  claims: JWTPayload,
  { private: key, public: jwk, kid }: ScriptedOidcProvider['key'],
  header: Json = {},
): Promise<string> =>
  new SignJWT(claims).setProtectedHeader({ alg: jwk.alg ?? 'RS256', kid, ...header }).sign(key);

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

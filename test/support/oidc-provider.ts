import { randomBytes } from 'node:crypto';
import { Agent } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import sinon from 'sinon';
import { exportJWK, generateKeyPair } from 'jose';
import type { Adapter, AdapterPayload, ClientMetadata, JWK, Provider } from 'oidc-provider';
import { getOverHttps, startHttpsServer } from './https-server.ts';

/** What the provider says about a person. Claims that are absent here are absent there. */
export interface OidcAccount {
  /** Claims such as `email`, `email_verified` and `name`; `sub` is the key of the account. */
  claims: Record<string, unknown>;
  /** How the person is authenticated, as the ID token says it. */
  amr?: string[];
  acr?: string;
  /** The person refuses: the browser comes back with `error=access_denied`. */
  refuses?: boolean;
}

export interface OidcClient {
  clientId: string;
  clientSecret: string;
}

/**
 * A real identity provider (the package oidc-provider) on loopback, over HTTPS. It requires PKCE, and answers with `iss`
 * (RFC 9207). Nobody types anything: who signs in is the account that the browser's cookie `account` names, else
 * `person`. So a client that keeps cookies and follows redirects comes back to Muster at the end.
 *
 * The server needs `createTestApp({ outbound: { ca: TEST_AUTHORITY }, env: { SSO_ALLOWED_PRIVATE_CIDRS: '127.0.0.0/8' } })`.
 */
export interface OidcProvider {
  issuer: string;
  /** By `sub`. Changes count from the next request on. */
  accounts: Map<string, OidcAccount>;
  /** The account that signs in where no cookie names one. */
  person: string | undefined;
  /** Paths that were asked for, in order, such as `/token` and `/jwks`. */
  paths: string[];
  addClient(redirectUri: string, metadata?: Partial<ClientMetadata>): OidcClient;
  deleteClient(clientId: string): void;
  /** All keys are replaced by others, as after a leak. */
  rotateKeys(): Promise<void>;
  /**
   * What a browser does at the provider: from the URL that Muster sends it to, up to the one that leads away from the
   * provider again, which is returned.
   */
  signIn(authorizationUrl: string, account?: string): Promise<string>;
  /** Nobody answers at its port any more. */
  stop(): Promise<void>;
  /** Answers again, with the same keys, clients and accounts. */
  start(): Promise<void>;
  /** Its TLS certificate expires: nobody trusts new connections any more. */
  expireCertificate(): Promise<void>;
}

export async function startOidcProvider(): Promise<OidcProvider> {
  const ProviderClass = await quietImport();
  const stored = new Map<string, AdapterPayload>();
  const accounts = new Map<string, OidcAccount>();
  const cookieKey = randomBytes(16).toString('hex');
  const paths: string[] = [];
  let provider: Provider;

  const server = await startHttpsServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'https://idp');
    paths.push(pathname);
    const answered = pathname.startsWith('/interaction/')
      ? interact(request, response)
      : provider.callback()(request, response);
    answered.catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  const issuer = `https://127.0.0.1:${server.port}`;

  async function interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const named = /(?:^|; )account=([^;]+)/.exec(request.headers.cookie ?? '')?.[1];
    const accountId = named === undefined ? self.person : decodeURIComponent(named);
    const account = accounts.get(accountId ?? '');
    const isRefused = accountId === undefined || account === undefined || account.refuses === true;
    await provider.interactionFinished(
      request,
      response,
      isRefused
        ? { error: 'access_denied', error_description: 'The person refused.' }
        : {
            login: {
              accountId,
              ...(account.amr === undefined ? {} : { amr: account.amr }),
              ...(account.acr === undefined ? {} : { acr: account.acr }),
            },
          },
    );
  }

  async function create(): Promise<Provider> {
    const created = new ProviderClass(issuer, {
      adapter: adapterOver(stored),
      jwks: { keys: await Promise.all([newKey('RS256'), newKey('ES256')]) },
      cookies: { keys: [cookieKey] },
      pkce: { required: () => true },
      features: { devInteractions: { enabled: false }, jwtUserinfo: { enabled: true } },
      interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
      enabledJWA: {
        idTokenSigningAlgValues: ['RS256', 'PS256', 'ES256', 'HS256'],
        userinfoSigningAlgValues: ['RS256', 'ES256'],
      },
      scopes: ['openid', 'profile', 'email', 'groups', 'offline_access'],
      claims: {
        openid: ['sub', 'amr', 'acr'],
        profile: ['name', 'given_name', 'family_name', 'preferred_username'],
        email: ['email', 'email_verified'],
        groups: ['groups'],
      },
      ttl: {
        AccessToken: 3600,
        AuthorizationCode: 60,
        Grant: 3600,
        IdToken: 600,
        Interaction: 600,
        Session: 3600,
      },
      renderError(ctx, { error, error_description }) {
        ctx.body = `${error}: ${error_description}`;
      },
      async findAccount(_ctx, accountId) {
        const account = accounts.get(accountId);
        if (account === undefined) return undefined;
        return { accountId, claims: () => Promise.resolve({ ...account.claims, sub: accountId }) };
      },
      // Everyone has consented to everything.
      async loadExistingGrant({ oidc }) {
        const { client, session } = oidc;
        if (client === undefined || session?.accountId === undefined) return undefined;
        const grant = new oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
        grant.addOIDCScope('openid profile email groups offline_access');
        await grant.save();
        return grant;
      },
    });
    return created;
  }

  provider = await create();

  const self: OidcProvider = {
    issuer,
    accounts,
    person: undefined,
    paths,
    addClient(redirectUri, metadata = {}) {
      const clientId = `muster-${randomBytes(4).toString('hex')}`;
      const clientSecret = `${randomBytes(16).toString('hex')}:+/&=% ~`;
      stored.set(`Client:${clientId}`, {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        ...metadata,
      });
      return { clientId, clientSecret };
    },
    deleteClient: (clientId) => void stored.delete(`Client:${clientId}`),
    async rotateKeys() {
      provider = await create();
    },
    async signIn(authorizationUrl, account) {
      const cookies = new Map<string, string>();
      if (account !== undefined) cookies.set('account', encodeURIComponent(account));
      // A browser uses its connection again.
      const agent = new Agent({ keepAlive: true, timeout: 5000 });
      let url = authorizationUrl;
      for (let steps = 0; steps < 10; steps++) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const { status, headers, body } = await getOverHttps(url, { cookie }, agent);
        if (headers.location === undefined) throw new Error(`${url} answered ${status}: ${body}`);
        for (const line of headers['set-cookie'] ?? []) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
          cookies.set(name, value);
        }
        url = new URL(headers.location, url).href;
        if (!url.startsWith(`${issuer}/`)) {
          agent.destroy();
          return url;
        }
      }
      throw new Error('The provider redirects without end.');
    },
    stop: () => server.stop(),
    start: () => server.start(),
    async expireCertificate() {
      await server.stop();
      server.useCertificate('expired');
      await server.start();
    },
  };
  return self;
}

/** The package warns about Node 20 when it is loaded, and works with it. */
async function quietImport(): Promise<typeof Provider> {
  const warnings = sinon.stub(console, 'warn');
  try {
    return (await import('oidc-provider')).Provider;
  } finally {
    warnings.restore();
  }
}

async function newKey(alg: 'RS256' | 'ES256'): Promise<JWK> {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = await exportJWK(privateKey);
  const kid = randomBytes(6).toString('hex');
  // An RSA key without `alg` signs PS256 as well.
  return { ...jwk, kid, use: 'sig' };
}

/** What the provider keeps, in memory. Nothing expires: the provider checks that by itself. */
function adapterOver(stored: Map<string, AdapterPayload>): (model: string) => Adapter {
  const find = (where: (payload: AdapterPayload) => boolean, model: string) =>
    [...stored].find(([key, payload]) => key.startsWith(`${model}:`) && where(payload))?.[1];
  return (model) => ({
    upsert: async (id, payload) => void stored.set(`${model}:${id}`, payload),
    find: async (id) => stored.get(`${model}:${id}`),
    findByUid: async (uid) => find((payload) => payload.uid === uid, model),
    findByUserCode: async () => undefined,
    destroy: async (id) => void stored.delete(`${model}:${id}`),
    async consume(id) {
      const payload = stored.get(`${model}:${id}`);
      if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000);
    },
    async revokeByGrantId(grantId) {
      for (const [key, payload] of stored) if (payload.grantId === grantId) stored.delete(key);
    },
  });
}

import { expect } from 'chai';
import { SignJWT } from 'jose';
import type { IncomingHttpHeaders, RequestListener } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { SsoProvider } from '../../../../../src/features/sso/sso.model.ts';
import type { SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import { type DnsServer, startDnsServer } from '../../../../support/dns-server.ts';
import {
  type Departures,
  type ScriptedOidcProvider,
  signed,
  startScriptedOidcProvider,
} from '../../../../support/scripted-oidc-provider.ts';
import {
  IMPATIENT,
  newState,
  providerOf,
  queryOf,
  reasonOf,
  signIn,
  testContext,
  testFetch,
  testProtocol,
} from '../../../../support/sso/oidc/oidc-fixture.ts';

const TEN_MEGABYTES = 10 << 20;
const json =
  (body: string | Buffer, headers = {}): RequestListener =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body);
const status =
  (code: number, headers = {}): RequestListener =>
  (_request, response) =>
    void response.writeHead(code, headers).end();

/** Answers that no endpoint may give, with the reason that each ends a sign-in with. */
const NO_ANSWERS: Record<string, [SsoFailureReason, RequestListener]> = {
  'a page of HTML': [
    'answer_invalid',
    (_request, response) =>
      void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Sign in</html>'),
  ],
  'HTML that is called JSON': ['answer_invalid', json('<html>Sign in</html>')],
  'half a document': ['answer_invalid', json('{"access_token": "acc')],
  'an empty document': ['answer_invalid', json('')],
  'JSON that is no object': ['answer_invalid', json('[1, 2]')],
  'JSON that is null': ['answer_invalid', json('null')],
  'nesting 100,000 deep': ['answer_invalid', json('['.repeat(100_000) + ']'.repeat(100_000))],
  'ten megabytes': ['answer_invalid', json(`"${'x'.repeat(TEN_MEGABYTES)}"`)],
  'ten megabytes without saying so': [
    'answer_invalid',
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
      response.on('error', () => undefined);
      response.end(Buffer.alloc(TEN_MEGABYTES, 'x'));
    },
  ],
  'a small answer that unpacks to ten megabytes': [
    'answer_invalid',
    json(gzipSync(Buffer.alloc(TEN_MEGABYTES, 'x')), { 'content-encoding': 'gzip' }),
  ],
  'a redirect to cloud credentials': [
    'answer_invalid',
    status(302, { location: 'http://169.254.169.254/latest/meta-data/' }),
  ],
  'a redirect that would repeat the request (307)': [
    'answer_invalid',
    status(307, { location: 'https://127.0.0.1:1/' }),
  ],
  'status 204': ['answer_invalid', status(204)],
  'status 404': ['answer_invalid', status(404)],
  'status 500': ['provider_unreachable', status(500)],
  'a closed connection': ['answer_invalid', (request) => void request.socket.destroy()],
  'nothing, for ever': ['provider_unreachable', () => undefined],
  'one byte now and then': [
    'provider_unreachable',
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const timer = setInterval(() => response.write(' '), 50);
      response.once('close', () => clearInterval(timer));
    },
  ],
};

/** What a token endpoint answers differently from the rest, with the same answers. */
const OF_TOKEN_ENDPOINT: Record<string, SsoFailureReason> = { 'status 404': 'provider_refused' };

describe('a hostile OpenID provider', () => {
  let idp: ScriptedOidcProvider;
  let honest: SsoProvider;

  before(async () => {
    idp = await startScriptedOidcProvider();
    honest = await providerOf(idp, idp);
  });
  after(() => idp.stop());
  afterEach(() => {
    idp.departures = {};
    idp.tokenAuthMethod = 'client_secret_basic';
  });

  /** First a valid sign-in, then the same with one thing undone, then a valid one again. */
  async function expectRefused(
    reason: SsoFailureReason,
    departures: Departures,
    settings: Partial<SsoProvider> = {},
  ): Promise<void> {
    const attempt = (provider: SsoProvider, limits = {}) =>
      signIn(testProtocol({ fetch: testFetch(limits) }), provider, idp.signIn);
    idp.departures = {};
    expect((await attempt(honest)).subject).to.equal('subject-1');
    idp.departures = departures;
    const patience = reason === 'provider_unreachable' ? { limits: IMPATIENT } : {};
    expect(await reasonOf(attempt(changed(settings), patience))).to.equal(reason);
    idp.departures = {};
    expect((await attempt(honest)).subject).to.equal('subject-1');
  }

  const changed = (settings: Partial<SsoProvider>): SsoProvider => Object.assign(honest.$clone(), settings);

  for (const path of ['/token', '/jwks', '/userinfo']) {
    describe(`is refused if ${path} answers with`, () => {
      for (const [title, [reason, listener]] of Object.entries(NO_ANSWERS)) {
        const expected = (path === '/token' ? OF_TOKEN_ENDPOINT[title] : undefined) ?? reason;
        it(`${title}, as ${expected}`, () => expectRefused(expected, { endpoint: { [path]: listener } }));
      }
    });
  }

  describe('is refused if ten megabytes come along with an honest answer of', () => {
    const padded = (answer: object) => ({ ...answer, padding: 'x'.repeat(TEN_MEGABYTES) });
    for (const endpoint of ['token', 'userinfo', 'jwks'] as const) {
      it(`/${endpoint}`, () => expectRefused('answer_invalid', { [endpoint]: padded }));
    }
  });

  describe('is refused if the token endpoint answers with', () => {
    const TOKENS: Record<string, Record<string, unknown>> = {
      'an array as the ID token': { id_token: ['a.b.c'] },
      'an object as the ID token': { id_token: {} },
      'an array as the access token': { access_token: ['access-token'] },
      'no access token': { access_token: undefined },
      'an empty access token': { access_token: '' },
      'an access token that would add a header': { access_token: 'a\r\nx-admin: 1' },
      'an array as the refresh token': { refresh_token: ['r'] },
      'a refresh token that breaks a line': { refresh_token: 'a\r\nb' },
      'tokens of another type': { token_type: 'DPoP' },
    };
    for (const [title, change] of Object.entries(TOKENS)) {
      it(title, () => expectRefused('answer_invalid', { token: (answer) => ({ ...answer, ...change }) }));
    }

    const ERRORS: [error: string, status: number, reason: SsoFailureReason][] = [
      ['invalid_client', 400, 'client_refused'],
      ['unauthorized_client', 400, 'client_refused'],
      ['access_denied', 401, 'client_refused'],
      ['invalid_grant', 400, 'answer_invalid'],
      ['invalid_request', 400, 'provider_refused'],
      ['toString', 400, 'provider_refused'],
    ];
    for (const [error, code, reason] of ERRORS) {
      it(`the error ${error} and status ${code}, as ${reason}`, () =>
        expectRefused(reason, {
          endpoint: {
            '/token': (_request, response) =>
              void response
                .writeHead(code, { 'content-type': 'application/json' })
                .end(JSON.stringify({ error, error_description: 'x'.repeat(1000) })),
          },
        }));
    }

    it('an error although the status says that it is none', () =>
      expectRefused('answer_invalid', { token: () => ({ error: 'invalid_client' }) }));
  });

  describe('is refused if the userinfo endpoint speaks of', () => {
    const USERS: Record<string, Record<string, unknown>> = {
      'somebody else': { sub: 'subject-2' },
      nobody: { sub: undefined },
      'a subject in another spelling': { sub: 'Subject-1' },
      'several subjects': { sub: ['subject-1'] },
    };
    for (const [title, change] of Object.entries(USERS)) {
      it(title, () => expectRefused('answer_invalid', { userinfo: (claims) => ({ ...claims, ...change }) }));
    }
  });

  it('is refused if the userinfo endpoint sends the claims of the person with a status of failure', () =>
    expectRefused('answer_invalid', {
      endpoint: {
        '/userinfo': (_request, response) =>
          void response
            .writeHead(403, { 'content-type': 'application/json' })
            .end(JSON.stringify(idp.person)),
      },
    }));

  it('is refused if the userinfo endpoint nests a claim 50,000 deep', () => {
    const nested = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    return expectRefused('answer_invalid', {
      endpoint: { '/userinfo': json(`{"sub":"subject-1","groups":${nested}}`) },
    });
  });

  it('may send null and digits in quotes with its tokens, and a challenge with its claims', async () => {
    idp.departures = {
      token: (answer) => ({ ...answer, expires_in: '3600', refresh_token: null, scope: null }),
      endpoint: {
        '/userinfo': json(JSON.stringify(idp.person), { 'www-authenticate': 'Bearer realm="idp"' }),
      },
    };
    const { subject, tokens } = await signIn(testProtocol(), honest, idp.signIn);
    expect(subject).to.equal('subject-1');
    expect(tokens).to.include({ accessToken: 'access-token', refreshToken: undefined });
    expect(tokens?.expiresAt).to.be.a('date');
    idp.departures = { token: (answer) => ({ ...answer, expires_in: 'soon' }) };
    expect((await signIn(testProtocol(), honest, idp.signIn)).tokens?.expiresAt).to.equal(undefined);
  });

  describe('sends the claims of the userinfo endpoint as a signed token, which', () => {
    type Signing = () => Promise<string>;
    const token =
      (make: Signing): RequestListener =>
      (_request, response) =>
        void make().then((jwt) => response.writeHead(200, { 'content-type': 'application/jwt' }).end(jwt));
    const claims = (change: object = {}) => ({
      sub: 'subject-1',
      email: 'ann@customer.test',
      email_verified: 'true',
      iss: idp.issuer,
      aud: idp.clientId,
      ...change,
    });
    const sending = (make: Signing) => ({ endpoint: { '/userinfo': token(make) } });

    it('counts like the document', async () => {
      for (const change of [{}, { iss: undefined, aud: undefined }, { aud: ['other', idp.clientId] }]) {
        idp.departures = sending(() => signed(claims(change), idp.key));
        const identity = await signIn(testProtocol(), honest, idp.signIn);
        expect(identity).to.include({ email: 'ann@customer.test', emailVerified: true });
      }
    });

    const FORGED: Record<string, [SsoFailureReason, Signing]> = {
      'with another subject': ['answer_invalid', () => signed(claims({ sub: 'subject-2' }), idp.key)],
      'without a subject': ['answer_invalid', () => signed(claims({ sub: undefined }), idp.key)],
      'of another issuer': ['issuer_mismatch', () => signed(claims({ iss: 'https://evil.test' }), idp.key)],
      'for another client': ['audience_mismatch', () => signed(claims({ aud: ['other'] }), idp.key)],
      'that has expired': ['answer_expired', () => signed(claims({ exp: 1 }), idp.key)],
      'with a changed signature': [
        'signature_invalid',
        async () => (await signed(claims(), idp.key)).replace(/\.[^.]*$/, `.${'A'.repeat(342)}`),
      ],
      'signed by nobody': [
        'algorithm_not_allowed',
        async () => `${btoa('{"alg":"none"}')}.${btoa(JSON.stringify(claims())).replaceAll('=', '')}.`,
      ],
      'signed with the secret of the client': [
        'algorithm_not_allowed',
        () =>
          new SignJWT(claims())
            .setProtectedHeader({ alg: 'HS256' })
            .sign(Buffer.from(idp.clientSecret.padEnd(32))),
      ],
      'that is encrypted': ['signature_invalid', () => Promise.resolve('a.b.c.d.e')],
      'that is JSON': ['signature_invalid', () => Promise.resolve(JSON.stringify(claims()))],
    };
    for (const [title, [reason, make]] of Object.entries(FORGED)) {
      it(`is refused ${title}`, () => expectRefused(reason, sending(make)));
    }
  });

  describe('is refused if its key set has', () => {
    it('10,000 keys', () =>
      expectRefused('answer_invalid', { jwks: ({ keys }) => ({ keys: Array(10_000).fill(keys[0]) }) }));
    it('more than 100 small keys', () =>
      expectRefused('answer_invalid', {
        jwks: () => ({ keys: Array.from({ length: 101 }, () => ({ kty: 'RSA' })) }),
      }));
    it('no keys', () => expectRefused('signature_invalid', { jwks: () => ({ keys: [] }) }));
    it('no list of keys', () => expectRefused('answer_invalid', { jwks: () => ({ keys: 'all' }) }));
  });

  it('is verified with the good key of a set that has unusable ones beside it', async () => {
    idp.departures = {
      jwks: ({ keys }) => ({
        keys: [
          null,
          'a key',
          { Kty: 'RSA', Kid: 'in another spelling' },
          { kty: 'RSA', kid: 7 },
          { kty: 'oct', kid: 'without its value', use: 'sig' },
          { kty: 'RSA', kid: 'with a certificate only', x5c: ['MIID'] },
          // Providers whose program writes every member that it knows.
          ...keys.map((key) => ({ ...key, use: null, key_ops: null, x: null })),
        ],
      }),
    };
    const { subject } = await signIn(testProtocol(), honest, idp.signIn);
    expect(subject).not.to.equal('');
  });

  describe('is refused if the browser comes back with', () => {
    const QUERIES: Record<string, [SsoFailureReason, (query: URLSearchParams) => void]> = {
      'the issuer of another provider (mix-up)': [
        'issuer_mismatch',
        (query) => query.set('iss', 'https://honest.idp.test'),
      ],
      'no issuer although the provider always names it': ['issuer_mismatch', (query) => query.delete('iss')],
      'its issuer with another slash': ['issuer_mismatch', (query) => query.set('iss', `${idp.issuer}/`)],
      'an empty issuer': ['issuer_mismatch', (query) => query.set('iss', '')],
      'two issuers': ['answer_invalid', (query) => query.append('iss', idp.issuer)],
      'the error access_denied': ['provider_refused', (query) => query.set('error', 'access_denied')],
      'another error': ['provider_refused', (query) => query.set('error', 'x'.repeat(4000))],
      'an error of another provider': [
        'issuer_mismatch',
        (query) => {
          query.set('error', 'access_denied');
          query.set('iss', 'https://honest.idp.test');
        },
      ],
      'two errors': [
        'answer_invalid',
        (query) => {
          query.append('error', 'a');
          query.append('error', 'b');
        },
      ],
      'two codes': ['answer_invalid', (query) => query.append('code', 'another')],
      'no code': ['answer_invalid', (query) => query.delete('code')],
      'an empty code': ['answer_invalid', (query) => query.set('code', '')],
      'a code that nobody issued': ['answer_invalid', (query) => query.set('code', 'made-up')],
      'a code of 9,000 characters': ['answer_invalid', (query) => query.set('code', 'x'.repeat(9000))],
      'the state of another sign-in': ['answer_invalid', (query) => query.set('state', 'state-0')],
      'no state': ['answer_invalid', (query) => query.delete('state')],
      'two states': ['answer_invalid', (query) => query.append('state', 'state-0')],
    };
    for (const [title, [reason, callback]] of Object.entries(QUERIES)) {
      it(`${title}, as ${reason}`, () => expectRefused(reason, { callback }));
    }

    it('a code of one megabyte, or an object', async () => {
      const state = newState();
      const started = { state, ...(await testProtocol().begin(honest, state)), samlResponse: null };
      for (const code of ['x'.repeat(1 << 20), { a: 1 }, null, 1]) {
        const query = { state, code, iss: idp.issuer };
        expect(await reasonOf(testProtocol().finish(testContext, honest, started, query))).to.equal(
          'answer_invalid',
        );
      }
    });

    it('the code of another person, which their browser was made to lose', async () => {
      const protocol = testProtocol();
      const victim = queryOf(await idp.signIn((await protocol.begin(honest, 'state-of-victim')).url));
      const stolen = (query: URLSearchParams) => query.set('code', String(victim.code));
      await expectRefused('answer_invalid', { callback: stolen });
    });
  });

  it('may leave the issuer out if it did not promise to name it', async () => {
    idp.departures = { callback: (query) => query.delete('iss') };
    const silent = changed({ sendsIssuer: false });
    expect((await signIn(testProtocol(), silent, idp.signIn)).subject).to.equal('subject-1');
    idp.departures = { callback: (query) => query.set('iss', 'https://other.idp.test') };
    expect(await reasonOf(signIn(testProtocol(), silent, idp.signIn))).to.equal('issuer_mismatch');
  });

  describe('without an ID token', () => {
    const none: Departures = { sign: () => undefined };

    it('is believed as far as its userinfo endpoint goes, but not about a second factor', async () => {
      idp.departures = { ...none, userinfo: (claims) => ({ ...claims, amr: ['mfa'] }) };
      const identity = await signIn(testProtocol(), honest, idp.signIn);
      expect(identity).to.include({
        subject: 'subject-1',
        email: 'ann@customer.test',
        emailVerified: true,
        mfa: false,
      });
    });
    it('may name the person by a number', async () => {
      idp.departures = { ...none, userinfo: (claims) => ({ ...claims, sub: 4711 }) };
      expect((await signIn(testProtocol(), honest, idp.signIn)).subject).to.equal('4711');
    });
    it('is refused if it signs a subject that cannot be stored', () => {
      const signing: RequestListener = (_request, response) =>
        void signed({ sub: 'a\0b' }, idp.key).then((jwt) =>
          response.writeHead(200, { 'content-type': 'application/jwt' }).end(jwt),
        );
      return expectRefused('answer_invalid', { ...none, endpoint: { '/userinfo': signing } });
    });
    it('is refused if it has no userinfo endpoint', () =>
      expectRefused('answer_invalid', none, { userinfoUrl: null }));
    it('is refused if its userinfo endpoint names no subject', () =>
      expectRefused('answer_invalid', { ...none, userinfo: () => ({ email: 'ann@customer.test' }) }));
  });

  it('without a userinfo endpoint is believed by its ID token', async () => {
    const identity = await signIn(testProtocol(), changed({ userinfoUrl: null }), idp.signIn);
    expect(identity).to.include({ subject: 'subject-1', email: 'ann@customer.test', emailVerified: true });
    expect(identity.tokens).to.deep.include({ accessToken: 'access-token', refreshToken: 'refresh-token' });
  });

  it('gets the secret in its form if it wants that, and in the header otherwise', async () => {
    idp.tokenAuthMethod = 'client_secret_post';
    const posting = changed({ tokenAuthMethod: 'client_secret_post' });
    expect((await signIn(testProtocol(), posting, idp.signIn)).subject).to.equal('subject-1');
    expect(await reasonOf(signIn(testProtocol(), honest, idp.signIn))).to.equal('client_refused');
  });

  it('need not decode the usual characters of a client id and of a secret in the header', async () => {
    const client = { clientId: 'a0-b1.c2_d3', clientSecret: 'e4-f5.g6_h7*' };
    let sent: IncomingHttpHeaders = {};
    idp.departures = {
      endpoint: {
        '/token'({ headers }, response) {
          sent = headers;
          response.writeHead(401).end();
        },
      },
    };
    const provider = await providerOf(idp, client);
    expect(await reasonOf(signIn(testProtocol(), provider, idp.signIn))).to.equal('client_refused');
    expect(sent.authorization).to.equal(`Basic ${btoa(`${client.clientId}:${client.clientSecret}`)}`);
    expect(sent['user-agent']).to.equal('Muster');
  });

  it('is not asked for its keys again for each unknown key', async () => {
    const protocol = testProtocol({ keyCache: { cooldownMs: 60_000 } });
    idp.departures = { sign: (claims) => signed(claims, idp.key, { kid: `kid-${Math.random()}` }) };
    idp.paths.length = 0;
    const attempts = Array.from({ length: 30 }, () => reasonOf(signIn(protocol, honest, idp.signIn)));
    expect(await Promise.all(attempts)).to.deep.equal(Array(30).fill('signature_invalid'));
    expect(idp.paths.filter((path) => path === '/jwks')).to.have.length(1);
  });

  describe('whose endpoint is at an inner address', () => {
    let dns: DnsServer;
    let named: SsoProvider;
    const outbound = () => testFetch({ testing: { nameServers: [dns.address] } });

    before(async () => {
      dns = await startDnsServer();
      const idpOfName = { issuer: `https://idp.test:${idp.port}` };
      const endpoints = {
        authorizationUrl: `${idpOfName.issuer}/authorize`,
        tokenUrl: `${idpOfName.issuer}/token`,
        jwksUrl: `${idpOfName.issuer}/jwks`,
        userinfoUrl: `${idpOfName.issuer}/userinfo`,
      };
      named = changed(endpoints);
    });
    after(() => dns.close());
    beforeEach(() => dns.set('idp.test', ['127.0.0.1']));

    it('is refused at once, whichever endpoint it is', async () => {
      dns.set('inner.test', ['10.0.0.1']);
      const protocol = testProtocol({ fetch: outbound() });
      await protocol.begin(named, newState());
      for (const name of ['authorizationUrl', 'tokenUrl', 'jwksUrl', 'userinfoUrl'] as const) {
        const inner = Object.assign(named.$clone(), { [name]: 'https://inner.test/x' });
        expect(await reasonOf(protocol.begin(inner, newState())), name).to.equal('provider_unreachable');
      }
    });

    for (const [title, address] of [
      ['by a literal', 'https://169.254.169.254/token'],
      ['by a mapped literal', 'https://[::ffff:10.0.0.1]/token'],
      ['without TLS', 'http://idp.test/token'],
      ['with a password', 'https://a:b@idp.test/token'],
      ['on a port of another protocol', 'https://idp.test:25/token'],
      ['by no URL at all', 'idp.test'],
    ]) {
      it(`is refused ${title}`, async () => {
        const inner = Object.assign(named.$clone(), { tokenUrl: address });
        const attempt = testProtocol({ fetch: outbound() }).begin(inner, newState());
        expect(await reasonOf(attempt)).to.equal('provider_unreachable');
      });
    }

    for (const path of ['token', 'jwks', 'userinfo']) {
      it(`is refused if the name leads there only after the sign-in has begun (${path})`, async () => {
        const protocol = testProtocol({ fetch: outbound() });
        const own = Object.assign(named.$clone(), {
          [`${path}Url`]: `https://${path}.idp.test:${idp.port}/${path}`,
        });
        dns.set(`${path}.idp.test`, ['127.0.0.1']);
        const browser = (url: string) => idp.signIn(url);
        expect((await signIn(protocol, own, browser)).subject).to.equal('subject-1');
        const rebinding = async (url: string) => {
          const back = await browser(url);
          dns.set(`${path}.idp.test`, ['10.0.0.1']);
          return back;
        };
        const fresh = testProtocol({ fetch: outbound() });
        expect(await reasonOf(signIn(fresh, own, rebinding))).to.equal('provider_unreachable');
      });
    }
  });
});

import { expect } from 'chai';
import fc from 'fast-check';
import { discover, KeyCache } from '../../../../../src/features/sso/oidc-discovery.ts';
import type { SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import { startDnsServer } from '../../../../support/dns-server.ts';
import {
  type ScriptedOidcProvider,
  startScriptedOidcProvider,
} from '../../../../support/scripted-oidc-provider.ts';
import {
  newState,
  providerOf,
  reasonOf,
  testFetch,
  testProtocol,
} from '../../../../support/sso/oidc/oidc-fixture.ts';

describe('OpenID Connect discovery', () => {
  let idp: ScriptedOidcProvider;

  before(async () => {
    idp = await startScriptedOidcProvider();
  });
  after(() => idp.stop());
  afterEach(() => {
    idp.departures = {};
  });

  it('finds the endpoints, how the secret is sent, and whether answers name their issuer', async () => {
    expect(await discover(testFetch(), idp.issuer)).to.deep.equal({
      issuer: idp.issuer,
      authorizationUrl: `${idp.issuer}/authorize`,
      tokenUrl: `${idp.issuer}/token`,
      userinfoUrl: `${idp.issuer}/userinfo`,
      jwksUrl: `${idp.issuer}/jwks`,
      sendsIssuer: true,
      tokenAuthMethod: 'client_secret_basic',
    });
  });

  it('takes what may be missing in a document as the specification says', async () => {
    idp.departures = {
      discovery: ({ issuer, authorization_endpoint, token_endpoint, jwks_uri }) => ({
        issuer,
        authorization_endpoint,
        token_endpoint,
        jwks_uri,
      }),
    };
    expect(await discover(testFetch(), idp.issuer)).to.include({
      userinfoUrl: null,
      sendsIssuer: false,
      tokenAuthMethod: 'client_secret_basic',
    });
  });

  it('sends the secret in the form only if the header is not offered', async () => {
    idp.departures = {
      discovery: (document) => ({
        ...document,
        token_endpoint_auth_methods_supported: ['client_secret_post'],
      }),
    };
    expect((await discover(testFetch(), idp.issuer)).tokenAuthMethod).to.equal('client_secret_post');
  });

  it('takes the issuer as the document spells it, if only the slash at the end was left out', async () => {
    idp.departures = { discovery: (document) => ({ ...document, issuer: `${idp.issuer}/` }) };
    expect((await discover(testFetch(), idp.issuer)).issuer).to.equal(`${idp.issuer}/`);
    idp.departures = { discovery: (document) => document };
    expect(await reasonOf(discover(testFetch(), `${idp.issuer}/`))).to.equal('issuer_mismatch');
  });

  describe('refuses a document', () => {
    const CHANGES: Record<string, [SsoFailureReason, Record<string, unknown>]> = {
      'of another issuer': ['issuer_mismatch', { issuer: 'https://login.other.test' }],
      'whose issuer has two slashes at the end': ['issuer_mismatch', { issuer: 'slashes' }],
      'of a template': ['issuer_mismatch', { issuer: 'https://login.test/{tenantid}/v2.0' }],
      'without an issuer': ['answer_invalid', { issuer: undefined }],
      'without keys': ['answer_invalid', { jwks_uri: undefined }],
      'without a token endpoint': ['answer_invalid', { token_endpoint: undefined }],
      'whose token endpoint is a list': ['answer_invalid', { token_endpoint: ['https://127.0.0.1/token'] }],
      'whose token endpoint has no TLS': ['answer_invalid', { token_endpoint: 'http://127.0.0.1/token' }],
      'whose authorization endpoint is a script': [
        'answer_invalid',
        { authorization_endpoint: 'javascript:alert(1)' },
      ],
      'whose endpoint is longer than can be stored': [
        'answer_invalid',
        { token_endpoint: `https://127.0.0.1/${'x'.repeat(500)}` },
      ],
      'whose token endpoint is an inner address': [
        'provider_unreachable',
        { token_endpoint: 'https://10.0.0.1/' },
      ],
      'whose keys are with the cloud': ['provider_unreachable', { jwks_uri: 'https://169.254.169.254/jwks' }],
      'whose userinfo endpoint is an inner address': [
        'provider_unreachable',
        { userinfo_endpoint: 'https://[::ffff:10.0.0.1]/' },
      ],
      'whose authorization endpoint is an inner address': [
        'provider_unreachable',
        { authorization_endpoint: 'https://192.168.0.1/' },
      ],
      'that offers other ways only to prove the client': [
        'answer_invalid',
        { token_endpoint_auth_methods_supported: ['private_key_jwt'] },
      ],
      'that signs with shared secrets only': [
        'answer_invalid',
        { id_token_signing_alg_values_supported: ['HS256', 'none'] },
      ],
      'that does not offer the code flow': ['answer_invalid', { response_types_supported: ['id_token'] }],
    };
    for (const [title, [reason, change]] of Object.entries(CHANGES)) {
      it(`${title}, as ${reason}`, async () => {
        await discover(testFetch(), idp.issuer);
        const issuer = change.issuer === 'slashes' ? { issuer: `${idp.issuer}//` } : {};
        idp.departures = { discovery: (document) => ({ ...document, ...change, ...issuer }) };
        expect(await reasonOf(discover(testFetch(), idp.issuer))).to.equal(reason);
      });
    }
  });

  it('refuses a document whose token endpoint is at another host with an inner address', async () => {
    const dns = await startDnsServer();
    try {
      const outbound = testFetch({ testing: { nameServers: [dns.address] } });
      idp.departures = {
        discovery: (document) => ({ ...document, token_endpoint: 'https://tokens.test/token' }),
      };
      dns.set('tokens.test', ['127.0.0.1']);
      expect((await discover(outbound, idp.issuer)).tokenUrl).to.equal('https://tokens.test/token');
      // One inner address among permitted ones is enough.
      dns.set('tokens.test', ['127.0.0.1', '10.0.0.1']);
      expect(await reasonOf(discover(outbound, idp.issuer))).to.equal('provider_unreachable');
    } finally {
      dns.close();
    }
  });

  describe('refuses the issuer', () => {
    const ISSUERS: [string, SsoFailureReason][] = [
      ['https://login.test/{tenantid}/v2.0', 'issuer_mismatch'],
      ['https://login.test/?a=b', 'answer_invalid'],
      ['https://login.test/#', 'answer_invalid'],
      ['nonsense', 'answer_invalid'],
      ['http://127.0.0.1', 'provider_unreachable'],
      ['https://10.0.0.1', 'provider_unreachable'],
      ['https://localhost', 'provider_unreachable'],
    ];
    for (const [issuer, reason] of ISSUERS) {
      it(`${issuer}, as ${reason}`, async () => {
        expect(await reasonOf(discover(testFetch(), issuer))).to.equal(reason);
      });
    }
  });

  it('asks below the path of an issuer, whether it ends with a slash or not', async () => {
    idp.paths.length = 0;
    for (const issuer of [`${idp.issuer}/tenant`, `${idp.issuer}/tenant/`]) {
      expect(await reasonOf(discover(testFetch(), issuer))).to.equal('answer_invalid');
    }
    expect(idp.paths).to.deep.equal(Array(2).fill('/tenant/.well-known/openid-configuration'));
  });
});

describe('the request that a sign-in begins with', () => {
  let idp: ScriptedOidcProvider;

  before(async () => {
    idp = await startScriptedOidcProvider();
  });
  after(() => idp.stop());

  it('has a nonce, a challenge, the state and the scopes, and keeps the parameters of the endpoint', async () => {
    const provider = await providerOf(idp, idp, {
      scopes: ' email  openid groups ',
      authorizationUrl: `${idp.issuer}/authorize?tenant=a&state=fixed#fragment`,
    });
    const started = await testProtocol().begin(provider, 'the-state');
    expect(started.nonce).to.match(/^[\w-]{43}$/);
    expect(started.codeVerifier).to.match(/^[\w-]{64}$/);
    const url = new URL(started.url);
    const { code_challenge: challenge, ...query } = Object.fromEntries(url.searchParams);
    expect(challenge).to.match(/^[\w-]{43}$/);
    expect(query).to.deep.equal({
      tenant: 'a',
      client_id: idp.clientId,
      code_challenge_method: 'S256',
      nonce: started.nonce,
      redirect_uri: 'http://localhost:4000/api/v1/sso/callback',
      response_type: 'code',
      scope: 'openid email groups',
      state: 'the-state',
    });
    expect([...url.searchParams.keys()]).to.have.length(9);
    expect(url.origin + url.pathname).to.equal(`${idp.issuer}/authorize`);
  });

  it('goes to the endpoint that was checked, however that is spelled', async () => {
    const provider = await providerOf(idp, idp);
    const protocol = testProtocol({
      fetch: {
        fetch: () => Promise.reject(new Error('Nothing is sent.')),
        assertPermitted: () => Promise.resolve(),
      },
    });
    const piece = fc.oneof(
      fc.constantFrom(
        '"',
        "'",
        '`',
        '@',
        '\\',
        '/',
        '?',
        '#',
        ';',
        '%2f',
        '%00',
        '{',
        '^',
        '[',
        '。',
        '／',
        'ü',
        ':1',
        'state=x&',
      ),
      fc.string({ maxLength: 3 }),
    );
    const spelled = fc.array(piece, { maxLength: 8 }).map((pieces) => `https://idp.test${pieces.join('')}`);
    const isEndpoint = (text: string) =>
      URL.canParse(text) && new URL(text).username === '' && new URL(text).password === '';
    await fc.assert(
      fc.asyncProperty(spelled.filter(isEndpoint), async (authorizationUrl) => {
        const { url } = await protocol.begin(
          Object.assign(provider.$clone(), { authorizationUrl }),
          'the-state',
        );
        const [sentTo, checked] = [new URL(url), new URL(authorizationUrl)];
        expect(sentTo.origin + sentTo.pathname).to.equal(checked.origin + checked.pathname);
        expect(sentTo.searchParams.getAll('state')).to.deep.equal(['the-state']);
      }),
      { numRuns: 500, examples: [['https://idp.test"x\\y?']] },
    );
  });

  it('is never the same twice', async () => {
    const provider = await providerOf(idp, idp);
    const [one, other] = [
      await testProtocol().begin(provider, newState()),
      await testProtocol().begin(provider, newState()),
    ];
    expect(one.nonce).not.to.equal(other.nonce);
    expect(one.codeVerifier).not.to.equal(other.codeVerifier);
  });

  it('is not made for a provider that is not fully configured', async () => {
    const provider = await providerOf(idp, idp);
    for (const name of [
      'issuer',
      'clientId',
      'clientSecret',
      'authorizationUrl',
      'tokenUrl',
      'jwksUrl',
    ] as const) {
      const incomplete = Object.assign(provider.$clone(), { [name]: null });
      expect(await reasonOf(testProtocol().begin(incomplete, newState())), name).to.equal('not_configured');
    }
  });
});

describe('the cache of key sets', () => {
  it('forgets the ones that were not used for the longest time', () => {
    const cache = new KeyCache(testFetch(), { maxUrls: 3 });
    const [first, second] = [cache.of('https://a.test/1'), cache.of('https://a.test/2')];
    cache.of('https://a.test/3');
    expect(cache.of('https://a.test/1')).to.equal(first);
    cache.of('https://a.test/4');
    expect(cache.size).to.equal(3);
    expect(cache.of('https://a.test/1')).to.equal(first);
    expect(cache.of('https://a.test/2')).not.to.equal(second);
  });
});

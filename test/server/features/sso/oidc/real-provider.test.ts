import { expect } from 'chai';
import type { SsoProvider } from '../../../../../src/features/sso/sso.model.ts';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import {
  CALLBACK_URL,
  newState,
  providerOf,
  queryOf,
  reasonOf,
  signIn,
  testContext,
  testProtocol,
} from '../../../../support/sso/oidc/oidc-fixture.ts';

describe('a sign-in at a real OpenID provider', () => {
  let idp: OidcProvider;
  let provider: SsoProvider;
  let client: ReturnType<OidcProvider['addClient']>;

  before(async () => {
    idp = await startOidcProvider();
    client = idp.addClient(CALLBACK_URL);
    provider = await providerOf(idp, client);
  });
  after(() => idp.stop());
  beforeEach(() => {
    idp.accounts.clear();
    idp.accounts.set('ann', {
      claims: { email: 'ann@customer.test', email_verified: true, name: 'Ann Example' },
    });
    idp.person = 'ann';
  });

  it('says who the person is, and brings tokens', async () => {
    const { profile, tokens, ...identity } = await signIn(testProtocol(), provider, idp.signIn);
    expect(identity).to.deep.equal({
      subject: 'ann',
      email: 'ann@customer.test',
      emailVerified: true,
      name: 'Ann Example',
      mfa: false,
    });
    expect(profile).to.include({ sub: 'ann', iss: idp.issuer, name: 'Ann Example' });
    expect(tokens?.accessToken).to.be.a('string');
    expect(tokens?.expiresAt?.getTime()).to.be.closeTo(Date.now() + 3_600_000, 5000);
  });

  for (const alg of ['ES256', 'PS256'] as const) {
    it(`accepts ID tokens signed with ${alg}`, async () => {
      const own = idp.addClient(CALLBACK_URL, { id_token_signed_response_alg: alg });
      const { subject } = await signIn(testProtocol(), await providerOf(idp, own), idp.signIn);
      expect(subject).to.equal('ann');
    });
  }

  it('reads the claims of the userinfo endpoint also from a signed token', async () => {
    const own = idp.addClient(CALLBACK_URL, { userinfo_signed_response_alg: 'RS256' });
    const { email, emailVerified } = await signIn(testProtocol(), await providerOf(idp, own), idp.signIn);
    expect({ email, emailVerified }).to.deep.equal({ email: 'ann@customer.test', emailVerified: true });
  });

  it('refuses ID tokens that are signed with the secret of the client', async () => {
    const own = idp.addClient(CALLBACK_URL, { id_token_signed_response_alg: 'HS256' });
    expect(await reasonOf(signIn(testProtocol(), await providerOf(idp, own), idp.signIn))).to.equal(
      'algorithm_not_allowed',
    );
  });

  it('sends the secret in the form if the provider wants that', async () => {
    const own = idp.addClient(CALLBACK_URL, { token_endpoint_auth_method: 'client_secret_post' });
    const posting = await providerOf(idp, own, { tokenAuthMethod: 'client_secret_post' });
    expect((await signIn(testProtocol(), posting, idp.signIn)).subject).to.equal('ann');
  });

  it('goes on after the keys have changed, and fetches them once for all who wait', async () => {
    const protocol = testProtocol({ keyCache: { cooldownMs: 0 } });
    await signIn(protocol, provider, idp.signIn);
    await idp.rotateKeys();
    idp.paths.length = 0;
    const waiting = Array.from({ length: 20 }, () => signIn(protocol, provider, idp.signIn));
    expect((await Promise.all(waiting)).map(({ subject }) => subject)).to.deep.equal(Array(20).fill('ann'));
    const fetches = () => idp.paths.filter((path) => path === '/jwks').length;
    // A second one only where a sign-in found its key missing at the moment in which the first one ended.
    expect(fetches()).to.be.within(1, 2);
    idp.paths.length = 0;
    await signIn(protocol, provider, idp.signIn);
    expect(fetches()).to.equal(0);
  });

  it('takes a second factor from `amr`', async () => {
    idp.accounts.set('ann', { claims: {}, amr: ['pwd', 'otp'] });
    expect((await signIn(testProtocol(), provider, idp.signIn)).mfa).to.equal(true);
  });

  it('does not mix people up who sign in at once', async () => {
    const protocol = testProtocol();
    const names = Array.from({ length: 20 }, (_, index) => `person-${index}`);
    for (const name of names) idp.accounts.set(name, { claims: { email: `${name}@customer.test` } });
    const found = await Promise.all(
      names.map((name) => signIn(protocol, provider, (url) => idp.signIn(url, name))),
    );
    expect(found.map(({ subject }) => subject)).to.deep.equal(names);
    expect(found.map(({ email }) => email)).to.deep.equal(names.map((name) => `${name}@customer.test`));
  });

  it('fails with `provider_refused` if the person refuses', async () => {
    idp.accounts.set('ann', { claims: {}, refuses: true });
    expect(await reasonOf(signIn(testProtocol(), provider, idp.signIn))).to.equal('provider_refused');
  });

  it('fails with `client_refused` if the secret is wrong, or the client was deleted meanwhile', async () => {
    const wrong = await providerOf(idp, { ...client, clientSecret: 'wrong' });
    expect(await reasonOf(signIn(testProtocol(), wrong, idp.signIn))).to.equal('client_refused');
    const own = idp.addClient(CALLBACK_URL);
    const deleting = async (url: string) => {
      const back = await idp.signIn(url);
      idp.deleteClient(own.clientId);
      return back;
    };
    expect(await reasonOf(signIn(testProtocol(), await providerOf(idp, own), deleting))).to.equal(
      'client_refused',
    );
  });

  it('fails with `answer_invalid` if a code is used twice, or with the verifier of another sign-in', async () => {
    const protocol = testProtocol();
    const state = newState();
    const { url, nonce, codeVerifier } = await protocol.begin(provider, state);
    const query = queryOf(await idp.signIn(url));
    const started = { state, nonce, codeVerifier, samlResponse: null };
    const other = { ...started, codeVerifier: (await protocol.begin(provider, newState())).codeVerifier };
    expect(await reasonOf(protocol.finish(testContext, provider, other, query))).to.equal('answer_invalid');
    const again = queryOf(await idp.signIn(url));
    await protocol.finish(testContext, provider, started, again);
    expect(await reasonOf(protocol.finish(testContext, provider, started, again))).to.equal('answer_invalid');
  });

  it('fails with `provider_unreachable` while the provider is down, before and after the browser was there', async () => {
    const protocol = testProtocol();
    const stopping = async (url: string) => {
      const back = await idp.signIn(url);
      await idp.stop();
      return back;
    };
    expect(await reasonOf(signIn(protocol, provider, stopping))).to.equal('provider_unreachable');
    await idp.start();
    expect((await signIn(protocol, provider, idp.signIn)).subject).to.equal('ann');
  });
});

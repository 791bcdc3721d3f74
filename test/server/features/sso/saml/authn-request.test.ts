import { expect } from 'chai';
import { sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import { createSamlGround, type SamlGround } from './saml-ground.ts';

describe('a request to a SAML identity provider', () => {
  let app: TestApp;
  let ground: SamlGround;

  before(async () => {
    app = await sharedTestApp();
    ground = await createSamlGround(app);
  });
  after(async () => app.close());

  it('goes to the SSO URL with its own query, the state, and an ID that the answer has to name', async () => {
    const { url, request, asked } = await ground.begin();
    expect(url.origin + url.pathname).to.equal('https://idp.example.com/sso');
    expect(url.searchParams.get('tenant')).to.equal('1');
    expect(url.searchParams.get('RelayState')).to.equal('state-of-the-test');
    expect(asked.requestId).to.match(/^_[0-9a-f]{40}$/);
    expect(request).to.include(`ID="${asked.requestId}"`);
    expect(request).to.include(`AssertionConsumerServiceURL="${asked.acsUrl}"`);
    expect(request).to.include(`>${asked.audience}</saml:Issuer>`);
  });

  it('asks for no way of signing in, and for no form of NameID', async () => {
    const { request } = await ground.begin();
    expect(request).to.not.match(/RequestedAuthnContext|Format=/);
  });

  it('is not made for a provider without its settings', async () => {
    for (const missing of [
      { entityId: null },
      { ssoUrl: null },
      { certificate: null },
      { certificate: 'x' },
    ]) {
      const begin = ground.begin(missing);
      expect(await begin.then(() => undefined, String), JSON.stringify(missing)).to.match(/not_configured/);
    }
  });
});

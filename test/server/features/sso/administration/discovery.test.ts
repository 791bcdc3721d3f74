import { expect } from 'chai';
import type { RequestListener } from 'node:http';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, query } from '../../../../support/sso/sso-support.ts';
import {
  buildSsoTenant,
  hostileServers,
  ENDPOINTS,
  proveProvider,
  refusal,
  requestsOf,
  type SsoTenant,
  storedProvider,
} from './administration-support.ts';

describe('the endpoints of a provider', function () {
  this.timeout(120_000);
  let app: TestApp;
  let tenant: SsoTenant;
  let idp: OidcProvider;
  let act: ReturnType<typeof requestsOf>;
  before(async () => {
    app = await createSsoApp();
    tenant = await buildSsoTenant(app);
    idp = await startOidcProvider();
    act = requestsOf(app, tenant.orgAdmin);
  });
  after(async () => {
    await idp.stop();
    await app.close();
  });

  const serve = hostileServers();
  const endpointsOf = ({ authorizationUrl, tokenUrl, userInfoUrl, jwksUrl }: typeof ENDPOINTS) => ({
    authorizationUrl,
    tokenUrl,
    userInfoUrl,
    jwksUrl,
  });
  const discovered = () => ({
    authorizationUrl: `${idp.issuer}/auth`,
    tokenUrl: `${idp.issuer}/token`,
    userInfoUrl: `${idp.issuer}/me`,
    jwksUrl: `${idp.issuer}/jwks`,
  });

  it('are asked of the issuer when the provider is created', async () => {
    const { status, body } = await act.create({ issuer: idp.issuer });
    expect(status).to.equal(201);
    expect(endpointsOf(body)).to.deep.equal(discovered());
    const { sends_issuer } = await storedProvider(app, body.id);
    expect(sends_issuer).to.equal(true);
  });

  it('are those set by hand if there are some', async () => {
    const { body } = await act.create({ issuer: idp.issuer, tokenUrl: ENDPOINTS.tokenUrl });
    expect(endpointsOf(body)).to.deep.equal({ ...discovered(), tokenUrl: ENDPOINTS.tokenUrl });
  });

  it('stay empty, with a warning, if the issuer does not answer', async () => {
    app.log.length = 0;
    const silent = await serve((request) => request.socket.destroy());
    const { status, body } = await act.create({ issuer: silent });
    expect([status, body.issuer, body.authorizationUrl]).to.deep.equal([201, silent, null]);
    const warnings = app.log.filter(({ event }) => event === 'sso.discovery_failed');
    expect(warnings.map(({ level, host }) => [level, host])).to.deep.equal([['warn', new URL(silent).host]]);
  });

  it('are asked again with another issuer, and only then', async () => {
    const id = (await act.create({ issuer: 'https://10.0.0.1', clientId: 'muster' })).body.id;
    const { body } = await act.change(id, { issuer: idp.issuer });
    expect(endpointsOf(body)).to.deep.equal(discovered());
    idp.paths.length = 0;
    expect((await act.change(id, { issuer: idp.issuer, name: 'Renamed' })).status).to.equal(200);
    expect(idp.paths).to.deep.equal([]);
  });

  it('are asked again for the same issuer if they are missing', async () => {
    const id = (await act.create({ issuer: idp.issuer })).body.id;
    await act.change(id, { jwksUrl: null });
    const { body } = await act.change(id, { issuer: idp.issuer });
    expect(body.jwksUrl).to.equal(`${idp.issuer}/jwks`);
  });

  it('follow another issuer although a form sends the earlier ones back', async () => {
    const provider = (await act.create({ issuer: 'https://10.0.0.1', ...ENDPOINTS })).body;
    const { body } = await act.change(provider.id, { issuer: idp.issuer, ...endpointsOf(provider) });
    expect(endpointsOf(body)).to.deep.equal(discovered());
  });

  it('go with the issuer', async () => {
    const id = (await act.create({ issuer: idp.issuer })).body.id;
    const { body } = await act.change(id, { issuer: null });
    expect([body.issuer, body.authorizationUrl, body.jwksUrl]).to.deep.equal([null, null, null]);
    // Those of a provider without an issuer stay when a form sends that back.
    await act.change(id, ENDPOINTS);
    const form = await act.change(id, { issuer: null, name: 'Renamed', ...ENDPOINTS });
    expect(endpointsOf(form.body)).to.deep.equal(ENDPOINTS);
  });

  it('stay what they were, with all the rest, if another issuer does not answer as one', async () => {
    const id = (await act.create({ issuer: idp.issuer, clientId: 'muster' })).body.id;
    const before = await storedProvider(app, id);
    const json =
      (document: object, type = 'application/json'): RequestListener =>
      (_request, response) =>
        response.writeHead(200, { 'content-type': type }).end(JSON.stringify(document));
    const complete = (issuer: string) => ({
      issuer,
      authorization_endpoint: `${issuer}/auth`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
    });
    const named: Record<string, string> = {};
    const lying = async (name: string, document: (self: string) => object, type?: string) => {
      let self = '';
      self = await serve((request, response) => json(document(self), type)(request, response));
      named[name] = self;
    };
    await lying('names another issuer', () => complete(idp.issuer));
    await lying('lacks its keys', (self) => ({ ...complete(self), jwks_uri: undefined }));
    await lying('leads inside', (self) => ({
      ...complete(self),
      token_endpoint: 'https://169.254.169.254/token',
    }));
    await lying('leads away from TLS', (self) => ({ ...complete(self), jwks_uri: 'http://1.1.1.1/keys' }));
    await lying('is a page', complete, 'text/html');
    named['is a redirect'] = await serve((_request, response) =>
      response.writeHead(302, { location: `${idp.issuer}/.well-known/openid-configuration` }).end(),
    );
    named['is a megabyte'] = await serve((_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(`"${'x'.repeat(1 << 20)}"`),
    );
    named['fails'] = await serve((_request, response) => response.writeHead(503).end());
    named['is inside'] = 'https://10.0.0.1';
    named['is the metadata service'] = 'https://169.254.169.254';
    named['is mapped'] = 'https://[::ffff:10.0.0.1]';
    for (const [name, issuer] of Object.entries(named)) {
      const answer = await act.change(id, { issuer, name: 'Changed', clientId: 'changed' });
      expect([answer.status, answer.body.error], name).to.deep.equal([400, 'OIDC discovery failed']);
      expect(answer.body.details[0].path, name).to.equal('body.issuer');
      expect(JSON.stringify(answer.body), name).not.to.match(/169\.254|10\.0\.0|xxx|status/);
    }
    expect(await storedProvider(app, id)).to.deep.equal(before);
  });

  it('set by hand are refused if they may not be reached', async () => {
    const id = (await act.create({ ...ENDPOINTS })).body.id;
    const before = await storedProvider(app, id);
    for (const url of [
      'https://10.0.0.1/token',
      'https://169.254.169.254/latest',
      'https://[::ffff:192.168.0.1]/token',
      'https://user:password@1.1.1.1/token',
      'https://1.1.1.1:22/token',
      'http://1.1.1.1/token',
    ]) {
      for (const field of Object.keys(ENDPOINTS)) {
        const answers = [await act.change(id, { [field]: url }), await act.create({ [field]: url })];
        for (const { status, body } of answers) {
          expect([status, body.details[0].path], `${field} ${url}`).to.deep.equal([400, `body.${field}`]);
        }
      }
    }
    expect(await storedProvider(app, id)).to.deep.equal(before);
  });

  it('that have vanished since do not stand in the way of other changes', async () => {
    const gone = { ...ENDPOINTS, tokenUrl: 'https://10.0.0.1/gone' };
    const id = (await act.create({ ...ENDPOINTS })).body.id;
    await query(app, 'update sso_providers set token_url = ? where id = ?', [gone.tokenUrl, id]);
    expect((await act.change(id, { ...gone, name: 'Renamed' })).body).to.deep.include({ name: 'Renamed' });
  });

  it('are not stored if another person has changed the provider meanwhile', async () => {
    const { issuer, paths } = idp;
    const id = (await act.create({ clientId: 'muster' })).body.id;
    paths.length = 0;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = await serve((_request, response) => {
      void held.then(() =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(
          JSON.stringify({
            issuer: slow,
            authorization_endpoint: `${issuer}/auth`,
            token_endpoint: `${issuer}/token`,
            jwks_uri: `${issuer}/jwks`,
          }),
        ),
      );
      arrived();
    });
    let arrived = () => {};
    const asked = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const first = act.change(id, { issuer: slow });
    await asked;
    // Nothing is locked while the network is asked.
    expect((await act.change(id, { name: 'Renamed' })).status).to.equal(200);
    release();
    expect(refusal(await first)).to.deep.equal([409, 'CONFLICT']);
    expect((await act.read(id)).body).to.deep.include({ name: 'Renamed', issuer: null, configVersion: 2 });
  });

  it('end the proof of a working sign-in when they change, and secrets and names do not', async () => {
    const id = (await act.create({ clientId: 'muster', issuer: 'https://10.0.0.1', ...ENDPOINTS })).body.id;
    const proof = async () => (await act.read(id)).body.lastSuccessAt;
    await proveProvider(app, id);
    for (const change of [
      { clientSecret: 'another' },
      { name: 'Renamed', scopes: 'openid', allowedDomains: 'example.com', entityId: 'urn:other' },
      { clientId: 'muster', issuer: 'https://10.0.0.1', ...ENDPOINTS },
    ]) {
      await act.change(id, change);
      expect(await proof(), JSON.stringify(change)).to.be.a('string');
    }
    for (const change of [
      { clientId: 'other' },
      { issuer: idp.issuer },
      { tokenUrl: 'https://1.1.1.1/other' },
      { jwksUrl: 'https://1.1.1.1/other' },
    ]) {
      await proveProvider(app, id);
      expect((await act.change(id, change)).status).to.equal(200);
      expect(await proof(), JSON.stringify(change)).to.equal(null);
    }
    const saml = (await act.create({ type: 'saml', entityId: 'urn:a', ssoUrl: 'https://idp.example.com/a' }))
      .body.id;
    for (const change of [{ entityId: 'urn:b' }, { ssoUrl: 'https://idp.example.com/b' }]) {
      await proveProvider(app, saml);
      expect((await act.change(saml, change)).body.lastSuccessAt).to.equal(null);
    }
  });
});

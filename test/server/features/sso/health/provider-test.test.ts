import { expect } from 'chai';
import { type OidcProvider, startOidcProvider } from '../../../../support/oidc-provider.ts';
import { samlFile, signingKey } from '../../../../support/saml-certificates.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import {
  buildSsoTenant,
  hostileServers,
  proveProvider,
  refusal,
  requestsOf,
  type SsoTenant,
  storedProvider,
} from '../administration/administration-support.ts';
import { createSsoApp, query } from '../../../../support/sso/sso-support.ts';

const CERTIFICATE = signingKey('signing').certificate;

const metadata = ({
  entityId = 'https://idp.example.com',
  certificate = CERTIFICATE,
} = {}) => `<?xml version="1.0"?>
<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${entityId}">
  <IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
    <KeyDescriptor use="signing"><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>
      ${certificate.replace(/-----[A-Z ]+-----/g, '')}
    </X509Certificate></X509Data></KeyInfo></KeyDescriptor>
    <SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
      Location="https://127.0.0.1:4443/sso"/>
  </IDPSSODescriptor>
</EntityDescriptor>`;

describe('the test of a provider', function () {
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
  const make = async (body: object): Promise<string> => (await act.create(body)).body.id;
  const oidc = () => make({ issuer: idp.issuer, clientId: 'muster', clientSecret: 'secret' });
  /** The names of the checks, each with `no` where it has failed. */
  const outcome = async (id: string, body = {}) => {
    const answer = await act.test(id, body);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    const { success, checks } = answer.body;
    return [
      success,
      ...checks.map(({ name, ok }: { name: string; ok: boolean }) => (ok ? name : `no ${name}`)),
    ];
  };

  it('asks an OpenID provider for everything that a sign-in needs', async () => {
    const id = await oidc();
    idp.paths.length = 0;
    expect(await outcome(id)).to.deep.equal([
      true,
      'configuration',
      'discovery',
      'issuer',
      'endpoints',
      'keys',
    ]);
    expect(idp.paths).to.deep.equal(['/.well-known/openid-configuration', '/jwks']);
    // It changes nothing: nobody has signed in.
    expect((await act.read(id)).body).to.deep.include({ configVersion: 1, lastSuccessAt: null });
  });

  it('names what fails', async () => {
    const incomplete = await make({ clientId: 'muster' });
    const { checks } = (await act.test(incomplete)).body;
    expect(checks).to.deep.equal([
      {
        name: 'configuration',
        ok: false,
        message:
          'issuer is required; clientSecret is required; authorizationUrl is required; tokenUrl is required; jwksUrl is required',
      },
    ]);

    const id = await oidc();
    await query(app, "update sso_providers set token_url = 'https://169.254.169.254/token' where id = ?", [
      id,
    ]);
    expect(await outcome(id)).to.include.members([false, 'no endpoints', 'keys']);
    const page = await serve((_request, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>secret page</h1>'),
    );
    const empty = await serve((_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"keys":[]}'),
    );
    // A kid is text, and a sign-in refuses the whole set.
    const unusable = await serve((_request, response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"keys":[{"kty":"RSA","kid":1,"n":"AQAB","e":"AQAB"}]}'),
    );
    for (const url of [page, empty, unusable]) {
      await query(app, 'update sso_providers set jwks_url = ? where id = ?', [url, id]);
      expect(await outcome(id)).to.include('no keys');
      expect(JSON.stringify((await act.test(id)).body)).not.to.include('secret page');
    }
    await query(app, 'update sso_providers set issuer = ? where id = ?', [`${idp.issuer}/`, id]);
    expect(await outcome(id)).to.include.members(['discovery', 'no issuer']);
    await query(app, "update sso_providers set issuer = 'https://10.0.0.1' where id = ?", [id]);
    expect(await outcome(id)).to.include.members([false, 'no discovery']);
    const { body } = await act.test(id);
    expect(JSON.stringify(body)).not.to.match(/10\.0\.0\.1|169\.254|ECONN/);
  });

  it('looks at the certificate and the address of a SAML provider', async () => {
    const id = await make({ type: 'saml' });
    expect(await outcome(id)).to.deep.equal([false, 'no configuration']);
    await act.change(id, {
      entityId: 'urn:idp',
      ssoUrl: 'https://127.0.0.1:4443/sso',
      certificate: CERTIFICATE,
    });
    expect(await outcome(id)).to.deep.equal([true, 'configuration', 'certificate', 'ssoUrl']);
    await query(app, `update sso_providers set sso_url = 'https://10.0.0.1/sso' where id = ?`, [id]);
    expect(await outcome(id)).to.deep.equal([false, 'configuration', 'certificate', 'no ssoUrl']);
    await query(app, `update sso_providers set sso_url = 'https://127.0.0.1:4443/sso' where id = ?`, [id]);
    await query(app, 'update sso_providers set certificate = ? where id = ?', [samlFile('expired.pem'), id]);
    expect(await outcome(id)).to.deep.equal([false, 'no configuration', 'no certificate', 'ssoUrl']);
    const { checks } = (await act.test(id)).body;
    expect(checks[1].message).to.match(/^The certificate has expired on \d{4}-\d{2}-\d{2}\.$/);
  });

  it('fills a SAML provider from metadata as text', async () => {
    const id = await make({ type: 'saml' });
    expect(await outcome(id, { metadataXml: metadata() })).to.deep.equal([
      true,
      'configuration',
      'certificate',
      'ssoUrl',
    ]);
    expect((await act.read(id)).body).to.deep.include({
      entityId: 'https://idp.example.com',
      ssoUrl: 'https://127.0.0.1:4443/sso',
      certificate: CERTIFICATE,
      configVersion: 2,
    });
    expect((await act.status(id, 'active')).status).to.equal(200);
  });

  it('fills a SAML provider from metadata at an address', async () => {
    const id = await make({ type: 'saml' });
    for (const type of ['application/samlmetadata+xml', 'application/xml', 'text/xml']) {
      const entityId = `urn:${type.replace('/', ':')}`;
      const url = await serve((_request, response) =>
        response.writeHead(200, { 'content-type': type }).end(metadata({ entityId })),
      );
      expect((await act.test(id, { metadataUrl: `${url}/metadata` })).body.success, type).to.equal(true);
      expect((await act.read(id)).body.entityId).to.equal(entityId);
    }
  });

  it('changes nothing by metadata that is no good', async () => {
    const id = await make({ type: 'saml' });
    const ofOidc = await oidc();
    const before = [await storedProvider(app, id), await storedProvider(app, ofOidc)];
    const html = await serve((_request, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end(metadata()),
    );
    const huge = await serve((_request, response) =>
      response.writeHead(200, { 'content-type': 'text/xml' }).end(metadata() + ' '.repeat(600 << 10)),
    );
    const missing = await serve((_request, response) =>
      response.writeHead(404, { 'content-type': 'text/xml' }).end(metadata()),
    );
    const elsewhere = await serve((_request, response) =>
      response.writeHead(302, { location: `${html}/metadata` }).end(),
    );
    const doctype = metadata().replace('?>', '?><!DOCTYPE x [<!ENTITY e "x">]>');
    for (const body of [
      { metadataUrl: html },
      { metadataUrl: huge },
      { metadataUrl: missing },
      { metadataUrl: elsewhere },
      { metadataUrl: 'https://10.0.0.1/metadata' },
      { metadataUrl: 'https://169.254.169.254/metadata' },
      { metadataUrl: 'file:///etc/passwd' },
      { metadataXml: 'nonsense' },
      { metadataXml: doctype },
      { metadataXml: metadata({ certificate: samlFile('expired.pem') }) },
      { metadataXml: metadata(), metadataUrl: html },
      { metadataXml: metadata(), entityId: 'urn:mine' },
    ]) {
      const answer = await act.test(id, body);
      expect(refusal(answer).slice(0, 2), JSON.stringify(body)).to.deep.equal([400, 'VALIDATION_FAILED']);
      expect(JSON.stringify(answer.body)).not.to.match(/10\.0\.0\.1|169\.254|root:/);
    }
    expect((await act.test(id, { metadataXml: 'x'.repeat(1 << 20) })).status).to.equal(413);
    expect(refusal(await act.test(ofOidc, { metadataXml: metadata() }))).to.deep.equal([
      400,
      'VALIDATION_FAILED',
      'body.metadataXml: can only be used with providers of the type saml',
    ]);
    expect([await storedProvider(app, id), await storedProvider(app, ofOidc)]).to.deep.equal(before);
  });

  it('fills nothing if another person has changed the provider meanwhile', async () => {
    const id = await make({ type: 'saml' });
    const url = await serve((_request, response) => {
      void act
        .change(id, { name: 'Renamed' })
        .then(() => response.writeHead(200, { 'content-type': 'text/xml' }).end(metadata()));
    });
    expect(refusal(await act.test(id, { metadataUrl: url }))).to.deep.equal([409, 'CONFLICT']);
    expect((await act.read(id)).body).to.deep.include({ name: 'Renamed', entityId: null, configVersion: 2 });
  });

  it('puts no other identity provider in the place of one that is enforced', async () => {
    const id = await make({ type: 'saml' });
    await act.test(id, { metadataXml: metadata() });
    await proveProvider(app, id);
    await act.change(id, { enforceSSO: true, breakGlassUserIds: [tenant.orgAdmin.id] });
    const other = { metadataXml: metadata({ entityId: 'urn:other' }) };
    expect(refusal(await act.test(id, other))).to.deep.equal([409, 'SSO_NOT_PROVEN']);
    const next = metadata({ certificate: signingKey('next').certificate });
    expect((await act.test(id, { metadataXml: next })).body.success).to.equal(true);
    expect((await act.read(id)).body).to.deep.include({
      entityId: 'https://idp.example.com',
      certificate: signingKey('next').certificate,
      enforceSSO: true,
    });
  });
});

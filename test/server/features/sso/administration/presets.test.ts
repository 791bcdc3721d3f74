import { expect } from 'chai';
import type { TestApp } from '../../../../support/test-app.ts';
import { signingKey, samlFile } from '../../../../support/saml-certificates.ts';
import { createSsoApp } from '../../../../support/sso/sso-support.ts';
import { startDnsServer, type DnsServer } from '../../../../support/dns-server.ts';
import { buildSsoTenant, refusal, requestsOf, type SsoTenant } from './administration-support.ts';

describe('the settings of a provider', () => {
  let app: TestApp;
  let dns: DnsServer;
  let tenant: SsoTenant;
  let act: ReturnType<typeof requestsOf>;
  before(async () => {
    // A name server without any names, so that no test depends on the real ones.
    dns = await startDnsServer();
    app = await createSsoApp({ outbound: { nameServers: [dns.address] } });
    tenant = await buildSsoTenant(app);
    act = requestsOf(app, tenant.orgAdmin);
  });
  after(async () => {
    await app.close();
    dns.close();
  });

  it('have presets of four OIDC and five SAML products, with what is to be replaced in them', async () => {
    const { status, body } = await app.call('GET', '/sso/presets', { token: tenant.technician.token });
    expect(status).to.equal(200);
    const shown = body.data.map((preset: { id: string; type: string; placeholders: string[] }) =>
      [preset.type, preset.id, ...preset.placeholders].join(' '),
    );
    expect(shown).to.deep.equal([
      'oidc azure-ad tenant',
      'oidc okta domain',
      'oidc google',
      'oidc auth0 domain',
      'saml azure-ad-saml tenant',
      'saml okta-saml domain appId',
      'saml onelogin-saml domain appId',
      'saml adfs-saml adfs-server',
      'saml google-saml idpId',
    ]);
    for (const preset of body.data) {
      expect(preset.attributeMapping, preset.id).to.include.all.keys('email', 'name');
      if (preset.type === 'oidc') expect(preset.scopes, preset.id).to.match(/^openid profile email/);
    }
  });

  it('come from the preset if their creator has said nothing', async () => {
    const okta = (await act.create({ preset: 'okta' })).body;
    expect(okta).to.deep.include({
      preset: 'okta',
      issuer: null,
      scopes: 'openid profile email groups',
      attributeMapping: {
        email: 'email',
        name: 'name',
        firstName: 'given_name',
        lastName: 'family_name',
        groups: 'groups',
      },
    });
    const mapping = { email: 'mail', name: 'cn' };
    const own = (await act.create({ preset: 'okta', scopes: 'openid', attributeMapping: mapping })).body;
    expect(own).to.deep.include({ scopes: 'openid', attributeMapping: mapping });
    const google = (await act.create({ preset: 'google' })).body;
    expect(google).to.deep.include({
      issuer: 'https://accounts.google.com',
      tokenUrl: 'https://oauth2.googleapis.com/token',
    });
    const adfs = (await act.create({ type: 'saml', preset: 'adfs-saml' })).body;
    expect(adfs.ssoUrl).to.equal(null);
    expect(adfs.attributeMapping.groups).to.equal('http://schemas.xmlsoap.org/claims/Group');
  });

  it('are refused with the field and the rule', async () => {
    const pem = signingKey('signing').certificate;
    const refused: [object, string][] = [
      [{ preset: 'myspace' }, 'preset: must be one of azure-ad, okta, google'],
      [{ preset: 'okta-saml' }, 'preset: can only be used with providers of the type saml'],
      [
        { issuer: 'https://login.microsoftonline.com/{tenant}/v2.0' },
        'issuer: still contains the placeholder {tenant}: replace it',
      ],
      [
        { type: 'saml', ssoUrl: 'https://{adfs-server}/adfs/ls' },
        'ssoUrl: still contains the placeholder {adfs-server}',
      ],
      [{ type: 'saml', entityId: 'urn:{tenant}' }, 'entityId: still contains a placeholder in braces'],
      [{ issuer: 'idp.example.com' }, 'issuer: must be a URL that begins with https://'],
      [{ issuer: 'javascript:alert(1)' }, 'issuer: must be a URL that begins with https://'],
      [{ issuer: 'https://user:secret@idp.example.com' }, 'issuer: This URL is not allowed'],
      [{ issuer: 'http://idp.example.com' }, 'issuer: This URL is not allowed'],
      [
        { type: 'saml', ssoUrl: 'http://idp.example.com/sso' },
        'ssoUrl: must be a URL that begins with https://',
      ],
      [{ scopes: 'openid  email' }, 'scopes: must be words separated by one space'],
      [{ scopes: 'openid "email"' }, 'scopes: must be words separated by one space'],
      [{ scopes: '' }, 'scopes: must be words separated by one space'],
      [{ allowedDomains: 'example.com,co.uk' }, 'allowedDomains: "co.uk" must not be a public suffix'],
      [{ allowedDomains: 'example.com,' }, 'allowedDomains: "" must be a domain'],
      [{ allowedDomains: 'https://example.com' }, 'allowedDomains: "https://example.com" must be a domain'],
      [{ allowedDomains: '10.0.0.1' }, 'allowedDomains: "10.0.0.1" must be a domain, not an IP address'],
      [{ certificate: 'nonsense' }, 'certificate: must be a certificate in PEM form'],
      [{ certificate: signingKey('signing').key + pem }, 'certificate: contains a private key'],
      [{ certificate: samlFile('expired.pem') }, 'certificate: has expired on'],
      [{ attributeMapping: { email: 'email' } }, 'attributeMapping.name: '],
      [{ attributeMapping: { email: 'a', name: 'b', role: 'c' } }, 'attributeMapping: '],
      [{ attributeMapping: { email: 'a\0b', name: 'b' } }, 'attributeMapping.email: must not contain NUL'],
      [{ name: ' ' }, 'name: must not be blank'],
      [{ clientId: 'x'.repeat(256) }, 'clientId: '],
      [{ clientSecret: '' }, 'clientSecret: '],
      [{ status: 'active' }, 'body: '],
      [{ lastSuccessAt: '2026-01-01T00:00:00Z' }, 'body: '],
      [{ configVersion: 7 }, 'body: '],
    ];
    const id = (await act.create({})).body.id;
    for (const [body, rule] of refused) {
      const creating = await act.create(body);
      expect(creating.status, JSON.stringify(body)).to.equal(400);
      expect(refusal(creating).join('\n'), JSON.stringify(body)).to.include(rule);
      // The type and the preset are chosen once.
      if ('type' in body || 'preset' in body) continue;
      expect((await act.change(id, body)).status, JSON.stringify(body)).to.equal(400);
    }
    for (const fixed of [{ type: 'saml' }, { orgId: tenant.orgId }, { ownerScope: 'partner' }, {}]) {
      const answer = await act.change(id, fixed);
      expect([answer.status, answer.body.error]).to.deep.equal([400, 'no fields provided']);
    }
    expect((await act.change(id, { name: 'Renamed', orgId: tenant.orgId })).status).to.equal(400);
  });

  it('keep mail domains as sign-ins compare them', async () => {
    const { body } = await act.create({
      allowedDomains: 'Example.COM, münchen.example ,example.com,a.example.co.uk',
    });
    expect(body.allowedDomains).to.equal('example.com,xn--mnchen-3ya.example,a.example.co.uk');
    expect((await act.change(body.id, { allowedDomains: '' })).body.allowedDomains).to.equal('');
  });

  it('keep two certificates while the identity provider changes its key', async () => {
    const [one, two] = [signingKey('signing').certificate, signingKey('next').certificate];
    const { body } = await act.create({ type: 'saml', certificate: one.replaceAll('\n', '\r\n') + two });
    expect(body.certificate).to.equal(one + two);
  });
});

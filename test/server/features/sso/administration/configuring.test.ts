import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, type Person } from '../../../../support/factories.ts';
import { signingKey } from '../../../../support/saml-certificates.ts';
import { insertProvider } from '../../../../support/sso/sso-support.ts';
import { type Answer, sharedTestApp, type TestApp } from '../../../../support/test-app.ts';
import {
  buildPersonWithFactor,
  buildSsoTenant,
  requestsOf,
  type SsoTenant,
  storedProvider,
} from './administration-support.ts';

const SAML = {
  type: 'saml',
  entityId: 'https://idp.test/mine',
  ssoUrl: 'https://1.1.1.1/sso',
  certificate: signingKey('signing').certificate,
};

describe('who may configure how others sign in', () => {
  let app: TestApp;
  let tenant: SsoTenant;
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildSsoTenant(app);
  });
  after(() => app.close());

  const makeRole = async (by: Person, scope: string, permissions: string[]): Promise<string> => {
    const body = { name: `Role ${newId()}`, scope, permissions };
    return (await app.call('POST', '/roles', { token: by.token, body })).body.id;
  };
  const forbidden = ({ status, body }: Answer, missing: string[]) => {
    expect([status, body.code, body.details]).to.deep.equal([
      403,
      'FORBIDDEN',
      { missingPermissions: missing },
    ]);
    expect(body.error).to.match(/Ask a .*Partner Admin to make this change\.$/);
  };

  /** Everything that can be changed about a provider. */
  async function expectNothingMayBeChanged(id: string, by: Person, missing: string[]): Promise<void> {
    const act = requestsOf(app, by);
    const before = await storedProvider(app, id);
    for (const change of [
      { name: 'Mine' },
      { certificate: SAML.certificate },
      { entityId: SAML.entityId },
      { trustsIdpMfa: true },
      { breakGlassUserIds: [by.id] },
      { enforceSSO: true },
      { enforceSSO: false },
      { attributeMapping: { email: 'other', name: 'name' } },
      { defaultRoleId: null },
      { allowedDomains: 'mine.example.com' },
      { autoProvision: false },
    ]) {
      forbidden(await act.change(id, change), missing);
    }
    for (const status of ['active', 'testing', 'inactive']) forbidden(await act.status(id, status), missing);
    forbidden(await act.test(id, { metadataXml: '<EntityDescriptor/>' }), missing);
    forbidden(await act.remove(id), missing);
    expect(await storedProvider(app, id)).to.deep.equal(before);
  }

  it('is a Partner Admin if the provider is one of the partner', async () => {
    const { admin, partnerId } = tenant;
    const role = await makeRole(admin, 'partner', [
      'organizations:*',
      'users:*',
      'devices:*',
      'scripts:*',
      'backup:*',
    ]);
    const weak = await buildPersonWithFactor(app, { scope: 'partner', partnerId, role });
    forbidden(await requestsOf(app, weak).create({ ...SAML, ownerScope: 'partner', trustsIdpMfa: true }), [
      '*:*',
    ]);
    const made = await requestsOf(app, admin).create({ ...SAML, ownerScope: 'partner' });
    expect(made.status).to.equal(201);
    await expectNothingMayBeChanged(made.body.id, weak, ['*:*']);
    expect((await requestsOf(app, admin).status(made.body.id, 'active')).status).to.equal(200);
    expect((await requestsOf(app, weak).read(made.body.id)).status, 'reading stays').to.equal(200);
  });

  it('has all permissions of the members if the provider is one of an organization', async () => {
    const { admin, orgAdmin, orgId, partnerId } = tenant;
    const weakInside = await buildPersonWithFactor(app, {
      scope: 'organization',
      orgId,
      role: await makeRole(orgAdmin, 'organization', ['organizations:write', 'devices:read']),
    });
    const weakOutside = await buildPersonWithFactor(app, {
      scope: 'partner',
      partnerId,
      orgAccess: 'selected',
      orgIds: [orgId],
      role: await makeRole(admin, 'partner', ['organizations:write', 'devices:read']),
    });
    const id = await insertProvider(app, { org_id: orgId });
    for (const weak of [weakInside, weakOutside]) {
      forbidden(await requestsOf(app, weak).create({ ...SAML, orgId }), ['*:*']);
      await expectNothingMayBeChanged(id, weak, ['*:*']);
    }
    for (const strong of [orgAdmin, admin]) {
      expect((await requestsOf(app, strong).change(id, { name: `By ${strong.id}` })).status).to.equal(200);
    }
  });

  it('is asked again at each change and at the activation, because members come later', async () => {
    const { admin, partnerId } = tenant;
    const orgId = await buildOrganization(app, partnerId);
    const role = await makeRole(admin, 'partner', ['organizations:write', 'devices:read', 'devices:write']);
    const weak = await buildPersonWithFactor(app, { scope: 'partner', partnerId, role });
    const memberRole = await makeRole(admin, 'organization', ['devices:write']);
    await buildPerson(app, { scope: 'organization', orgId, role: memberRole });
    const made = await requestsOf(app, weak).create({ ...SAML, orgId });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const { id } = made.body;
    expect((await requestsOf(app, weak).status(id, 'active')).status).to.equal(200);
    expect((await storedProvider(app, id))['configured_permissions']).to.have.members([
      'organizations:write',
      'devices:read',
      'devices:write',
    ]);

    await buildPerson(app, { scope: 'organization', orgId, role: SYSTEM_ROLES.organizationTechnician });
    const refused = await requestsOf(app, weak).status(id, 'active');
    expect(refused.status).to.equal(403);
    expect(refused.body.details.missingPermissions).to.include.members(['devices:execute', 'alerts:write']);
    expect(refused.body.details.missingPermissions).to.not.include('devices:write');
    expect((await requestsOf(app, admin).status(id, 'active')).status).to.equal(200);
    expect((await storedProvider(app, id))['configured_permissions']).to.deep.equal(['*:*']);
  });
});

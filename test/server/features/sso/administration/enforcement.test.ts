import { expect } from 'chai';
import { newId } from '../../../../../src/platform/ids.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { buildPerson, giveSecondFactor, type Person } from '../../../../support/factories.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, query } from '../../../../support/sso/sso-support.ts';
import {
  buildSsoTenant,
  ENDPOINTS,
  proveProvider,
  refusal,
  requestsOf,
  type SsoTenant,
} from './administration-support.ts';

describe('the switch that enforces single sign-on', () => {
  let app: TestApp;
  let tenant: SsoTenant;
  before(async () => {
    app = await createSsoApp();
    tenant = await buildSsoTenant(app);
  });
  after(() => app.close());

  const CONFIGURED = { issuer: 'https://10.0.0.1', clientId: 'muster', clientSecret: 'secret', ...ENDPOINTS };
  const make = async (by: Person, body: object = {}): Promise<string> =>
    (await requestsOf(app, by).create({ ...CONFIGURED, ...body })).body.id;
  const NEEDS_ADMIN =
    'body.breakGlassUserIds: must name at least one active Organization Admin who has a password';
  const NEEDS_PARTNER_ADMIN =
    'body.breakGlassUserIds: must name at least one active Partner Admin who has a password and a second factor';

  it('needs a sign-in that has worked with the provider as it is', async () => {
    const { create, change, read, status } = requestsOf(app, tenant.orgAdmin);
    const enforced = { enforceSSO: true, breakGlassUserIds: [tenant.orgAdmin.id] };
    expect(refusal(await create({ ...CONFIGURED, ...enforced }))).to.deep.equal([409, 'SSO_NOT_PROVEN']);
    const id = await make(tenant.orgAdmin);
    await status(id, 'active');
    expect(refusal(await change(id, enforced))).to.deep.equal([409, 'SSO_NOT_PROVEN']);
    await proveProvider(app, id);
    expect((await change(id, enforced)).body).to.deep.include(enforced);

    // Nor is another identity provider put in its place while it is enforced.
    const other = { clientId: 'other' };
    expect(refusal(await change(id, other))).to.deep.equal([409, 'SSO_NOT_PROVEN']);
    expect((await read(id)).body).to.deep.include({ clientId: 'muster', enforceSSO: true });
    expect((await change(id, { ...other, enforceSSO: false })).body).to.deep.include({
      clientId: 'other',
      enforceSSO: false,
      lastSuccessAt: null,
    });
  });

  it('of an organization needs an active administrator of it who has a password', async () => {
    const { orgId, orgAdmin } = tenant;
    const { change } = requestsOf(app, orgAdmin);
    const id = await make(orgAdmin);
    await proveProvider(app, id);
    const administrator = () => buildPerson(app, { scope: 'organization', orgId });
    const enforce = async (...people: Pick<Person, 'id'>[]) =>
      refusal(await change(id, { enforceSSO: true, breakGlassUserIds: people.map((person) => person.id) }));

    const disabled = await administrator();
    await query(app, "update users set status = 'disabled' where id = ?", [disabled.id]);
    const withoutPassword = await administrator();
    await query(app, 'update users set password_hash = null where id = ?', [withoutPassword.id]);
    for (const people of [[], [tenant.technician], [disabled], [withoutPassword, tenant.technician]]) {
      expect(await enforce(...people)).to.deep.equal([400, 'VALIDATION_FAILED', NEEDS_ADMIN]);
    }
    expect(await enforce(tenant.technician, await administrator())).to.deep.equal([200, undefined]);
  });

  it('counts what a role holds, and not its name', async () => {
    const { orgId, orgAdmin } = tenant;
    const id = await make(orgAdmin);
    await proveProvider(app, id);
    const role = await app.call('POST', '/roles', {
      token: orgAdmin.token,
      body: { name: 'Chief', permissions: ['*:*'] },
    });
    const namesake = await app.call('POST', '/roles', {
      token: orgAdmin.token,
      body: { name: 'Organization Admin', permissions: ['users:*'] },
    });
    const chief = await buildPerson(app, { scope: 'organization', orgId, role: role.body.id });
    const impostor = await buildPerson(app, { scope: 'organization', orgId, role: namesake.body.id });
    const { change } = requestsOf(app, orgAdmin);
    expect(refusal(await change(id, { enforceSSO: true, breakGlassUserIds: [impostor.id] }))).to.include(
      NEEDS_ADMIN,
    );
    expect((await change(id, { enforceSSO: true, breakGlassUserIds: [chief.id] })).status).to.equal(200);
  });

  it('of a partner needs an active administrator of it who has a password and a second factor', async () => {
    const { admin, partnerId } = tenant;
    const { change } = requestsOf(app, admin);
    const id = await make(admin, { ownerScope: 'partner' });
    await proveProvider(app, id);
    const unsafe = await buildPerson(app, { scope: 'partner', partnerId });
    const role = SYSTEM_ROLES.partnerTechnician;
    const technician = await giveSecondFactor(
      app,
      await buildPerson(app, { scope: 'partner', partnerId, role }),
    );
    for (const breakGlassUserIds of [[], [unsafe.id], [technician.id]]) {
      const answer = await change(id, { enforceSSO: true, breakGlassUserIds });
      expect(refusal(answer)).to.deep.equal([400, 'VALIDATION_FAILED', NEEDS_PARTNER_ADMIN]);
    }
    const enforced = await change(id, { enforceSSO: true, breakGlassUserIds: [unsafe.id, admin.id] });
    expect(enforced.body.breakGlassUserIds).to.deep.equal([unsafe.id, admin.id]);
  });

  it('takes members of the owner alone, and says nothing about who else there is', async () => {
    const { admin, orgAdmin } = tenant;
    const other = await buildSsoTenant(app);
    const ofOrganization = await make(orgAdmin);
    const ofPartner = await make(admin, { ownerScope: 'partner' });
    const nobody = newId();
    for (const [by, id, stranger, owner] of [
      [orgAdmin, ofOrganization, other.orgAdmin.id, 'organization'],
      [orgAdmin, ofOrganization, admin.id, 'organization'],
      [orgAdmin, ofOrganization, nobody, 'organization'],
      [admin, ofPartner, other.admin.id, 'partner'],
      [admin, ofPartner, orgAdmin.id, 'partner'],
    ] as const) {
      expect(
        refusal(await requestsOf(app, by).change(id, { breakGlassUserIds: [by.id, stranger] })),
      ).to.deep.equal([
        400,
        'VALIDATION_FAILED',
        `body.breakGlassUserIds: must be users of this ${owner}; these are not: ${stranger}`,
      ]);
    }
  });

  it('is looked at again when a person activates an enforced provider', async () => {
    const own = await buildSsoTenant(app);
    const { change, status } = requestsOf(app, own.orgAdmin);
    const id = await make(own.orgAdmin);
    const named = await buildPerson(app, { scope: 'organization', orgId: own.orgId });
    await proveProvider(app, id);
    await change(id, { enforceSSO: true, breakGlassUserIds: [named.id] });
    await query(app, "update users set status = 'disabled' where id = ?", [named.id]);
    expect(refusal(await status(id, 'active'))).to.include(NEEDS_ADMIN);
    await change(id, { breakGlassUserIds: [named.id, own.orgAdmin.id] });
    expect((await status(id, 'active')).status).to.equal(200);
  });

  it('can be turned off whatever else is wrong with the provider', async () => {
    const { orgAdmin } = tenant;
    const { change, read, status } = requestsOf(app, orgAdmin);
    const id = await make(orgAdmin);
    await proveProvider(app, id);
    await change(id, { enforceSSO: true, breakGlassUserIds: [orgAdmin.id] });
    await status(id, 'active');
    await query(
      app,
      'update sso_providers set client_secret = null, default_role_id = ?, token_url = ? where id = ?',
      [SYSTEM_ROLES.partnerAdmin, 'https://10.0.0.1/gone', id],
    );
    const { body } = await read(id);
    const form = { name: body.name, issuer: body.issuer, tokenUrl: body.tokenUrl, breakGlassUserIds: [] };
    expect((await change(id, { ...form, enforceSSO: false })).body).to.deep.include({ enforceSSO: false });
  });

  it('can be turned off with a certificate that has expired, and comes back with a form', async () => {
    const { orgAdmin } = tenant;
    const { create, change } = requestsOf(app, orgAdmin);
    const id = (await create({ type: 'saml', entityId: 'urn:idp', ssoUrl: 'https://idp.example.com/sso' }))
      .body.id;
    const certificate = samlFile('expired.pem');
    await query(
      app,
      "update sso_providers set certificate = ?, enforce_sso = true, status = 'active', last_success_at = now() where id = ?",
      [certificate, id],
    );
    const { status, body } = await change(id, { certificate, enforceSSO: false });
    expect([status, body.enforceSSO]).to.deep.equal([200, false]);
  });
});

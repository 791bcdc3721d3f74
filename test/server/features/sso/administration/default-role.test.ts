import { expect } from 'chai';
import { isDefaultRoleValid } from '../../../../../src/features/sso/provider-settings.ts';
import { SsoProvider } from '../../../../../src/features/sso/sso.model.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildOrganization, type Person } from '../../../../support/factories.ts';
import { signingKey } from '../../../../support/saml-certificates.ts';
import type { TestApp } from '../../../../support/test-app.ts';
import { createSsoApp, query } from '../../../../support/sso/sso-support.ts';
import {
  buildPersonWithFactor,
  buildSsoTenant,
  ENDPOINTS,
  refusal,
  requestsOf,
  type SsoTenant,
  storedProvider,
} from './administration-support.ts';

describe('the role of accounts that a sign-in creates', () => {
  let app: TestApp;
  let tenant: SsoTenant;
  let other: SsoTenant;
  before(async () => {
    app = await createSsoApp();
    [tenant, other] = [await buildSsoTenant(app), await buildSsoTenant(app)];
  });
  after(() => app.close());

  const makeRole = async (by: Person, scope: string, permissions: string[]): Promise<string> => {
    const body = { name: `Role ${newId()}`, scope, permissions };
    return (await app.call('POST', '/roles', { token: by.token, body })).body.id;
  };
  const make = async (by: Person, body: object): Promise<string> => {
    const made = await requestsOf(app, by).create(body);
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    return made.body.id;
  };
  const stands = (id: string): Promise<boolean> =>
    withSystem(app.server.database.pool, 'test', async (tx) =>
      isDefaultRoleValid(tx, await SsoProvider.query(tx).findById(id).throwIfNotFound()),
    );

  it('is one for users of the owner', async () => {
    const { admin, orgAdmin, orgId } = tenant;
    const { organizationViewer, partnerViewer, systemAdmin } = SYSTEM_ROLES;
    const [ofOrganization, ofPartner] = [
      await makeRole(orgAdmin, 'organization', ['devices:read']),
      await makeRole(admin, 'organization', ['devices:read']),
    ];
    const partnerWide = await makeRole(admin, 'partner', ['devices:read']);
    const [theirs, theirPartners] = [
      await makeRole(other.orgAdmin, 'organization', ['devices:read']),
      await makeRole(other.admin, 'partner', ['devices:read']),
    ];
    for (const role of [organizationViewer, ofOrganization, ofPartner]) {
      expect(await make(admin, { orgId, defaultRoleId: role })).to.be.a('string');
    }
    for (const role of [partnerViewer, partnerWide]) {
      expect(await make(admin, { ownerScope: 'partner', defaultRoleId: role })).to.be.a('string');
    }
    const rule = (owner: string) => [
      400,
      'VALIDATION_FAILED',
      `body.defaultRoleId: must be a role for users of this ${owner}`,
    ];
    for (const role of [partnerViewer, partnerWide, systemAdmin, theirs, newId()]) {
      const answer = await requestsOf(app, admin).create({ orgId, defaultRoleId: role });
      expect(refusal(answer)).to.deep.equal(rule('organization'));
    }
    for (const role of [organizationViewer, ofOrganization, systemAdmin, theirPartners]) {
      const answer = await requestsOf(app, admin).create({ ownerScope: 'partner', defaultRoleId: role });
      expect(refusal(answer)).to.deep.equal(rule('partner'));
    }
  });

  it('never has more than the person who configures the provider', async () => {
    // Nobody is a member yet, so that only the default role counts.
    const orgId = await buildOrganization(app, tenant.partnerId);
    const role = await makeRole(tenant.admin, 'partner', ['organizations:write', 'devices:read']);
    const { partnerId } = tenant;
    const weak = await buildPersonWithFactor(app, { scope: 'partner', partnerId, role });
    const strong = { defaultRoleId: SYSTEM_ROLES.organizationAdmin };
    const forbidden = (answer: { status: number; body: { error: string } }) =>
      expect([answer.status, answer.body.error]).to.deep.equal([
        403,
        'You cannot grant permissions that you do not have: *:*.',
      ]);
    const act = requestsOf(app, weak);
    forbidden(await act.create({ orgId, ...strong }));
    const weakRole = await makeRole(tenant.admin, 'organization', ['devices:read']);
    const own = await make(weak, { orgId, defaultRoleId: weakRole });
    forbidden(await act.change(own, strong));

    // Nor do they let other people in by a provider whose role somebody else has chosen.
    const id = await make(tenant.admin, {
      orgId,
      ...strong,
      ...ENDPOINTS,
      issuer: 'https://10.0.0.1',
      clientId: 'muster',
    });
    const before = await storedProvider(app, id);
    for (const change of [
      { clientId: 'mine' },
      { jwksUrl: 'https://1.1.1.1/mine' },
      { allowedDomains: 'mine.example.com' },
      { autoProvision: false },
      { clientSecret: 'mine' },
      { attributeMapping: { email: 'other', name: 'name' } },
      { certificate: signingKey('signing').certificate },
      { trustsIdpMfa: true },
    ]) {
      forbidden(await act.change(id, change));
    }
    expect(await storedProvider(app, id)).to.deep.equal(before);
    expect((await act.change(id, { name: 'Renamed' })).status).to.equal(200);
    expect((await storedProvider(app, id))['default_role_configured_by']).to.equal(tenant.admin.id);
    expect((await act.change(id, { defaultRoleId: weakRole, clientId: 'mine' })).status).to.equal(200);
    expect((await storedProvider(app, id))['default_role_configured_by']).to.equal(weak.id);
  });

  it('may be given for as long as the person who configured it could give it', async () => {
    const { partnerId, admin } = tenant;
    const orgId = await buildOrganization(app, partnerId);
    const role = await makeRole(admin, 'organization', ['devices:read']);
    const partnerRole = await makeRole(admin, 'partner', ['organizations:write', 'devices:read']);
    const person = () => buildPersonWithFactor(app, { scope: 'partner', partnerId, role: partnerRole });
    const losing: [string, (configuredBy: Person, id: string) => Promise<unknown>][] = [
      ['is disabled', ({ id }) => query(app, "update users set status = 'disabled' where id = ?", [id])],
      ['is no member any more', ({ id }) => query(app, 'delete from partner_users where user_id = ?', [id])],
      ['has no account any more', ({ id }) => query(app, 'delete from users where id = ?', [id])],
      [
        'has a smaller role',
        ({ id }) =>
          query(app, 'update partner_users set role_id = ? where user_id = ?', [
            SYSTEM_ROLES.partnerViewer,
            id,
          ]),
      ],
      [
        'does not reach the organization any more',
        ({ id }) => query(app, "update partner_users set org_access = 'selected' where user_id = ?", [id]),
      ],
      [
        'is in another partner now',
        ({ id }) =>
          query(app, 'update partner_users set partner_id = ? where user_id = ?', [other.partnerId, id]),
      ],
      [
        'is nobody',
        (_by, id) =>
          query(app, 'update sso_providers set default_role_configured_by = null where id = ?', [id]),
      ],
    ];
    // The viewer of the partner holds devices:read, so that another permission is what is missing.
    await query(app, "update roles set permissions = '{devices:read,devices:write}' where id = ?", [role]);
    await query(app, "update roles set permissions = '{organizations:write,devices:*}' where id = ?", [
      partnerRole,
    ]);
    for (const [how, lose] of losing) {
      const configuredBy = await person();
      const id = await make(configuredBy, { orgId, defaultRoleId: role });
      expect(await stands(id), how).to.equal(true);
      await lose(configuredBy, id);
      expect(await stands(id), how).to.equal(false);
    }
    const kept = await person();
    const id = await make(kept, { orgId, defaultRoleId: role });
    await query(
      app,
      "update partner_users set org_access = 'selected', org_ids = array[?::uuid] where user_id = ?",
      [orgId, kept.id],
    );
    expect(await stands(id), 'still reaches it').to.equal(true);
  });

  it('may not be given if the role has grown, was deleted, or fits no more', async () => {
    const own = await buildSsoTenant(app);
    const role = await makeRole(own.admin, 'organization', ['devices:read']);
    const configurator = await makeRole(own.admin, 'partner', ['organizations:write', 'devices:read']);
    const { partnerId } = own;
    const orgId = await buildOrganization(app, partnerId);
    const by = await buildPersonWithFactor(app, { scope: 'partner', partnerId, role: configurator });
    const id = await make(by, { orgId, defaultRoleId: role });
    const grow = (permissions: string) =>
      query(app, 'update roles set permissions = ?::text[] where id = ?', [permissions, role]);
    await grow('{devices:read,devices:delete}');
    expect(await stands(id)).to.equal(false);
    await grow('{devices:read}');
    expect(await stands(id)).to.equal(true);
    await query(app, "update roles set scope = 'partner' where id = ?", [role]);
    expect(await stands(id)).to.equal(false);
    await query(app, "update roles set scope = 'organization', partner_id = ? where id = ?", [
      other.partnerId,
      role,
    ]);
    expect(await stands(id)).to.equal(false);
    await query(app, 'update roles set partner_id = ? where id = ?', [partnerId, role]);
    await query(app, "update partners set status = 'suspended' where id = ?", [partnerId]);
    expect(await stands(id)).to.equal(false);
    await query(app, "update partners set status = 'active' where id = ?", [partnerId]);
    expect(await stands(id)).to.equal(true);
    await query(app, 'delete from roles where id = ?', [role]);
    expect((await storedProvider(app, id))['default_role_id']).to.equal(null);
    expect(await stands(id)).to.equal(false);
  });
});

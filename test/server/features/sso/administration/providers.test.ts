import { expect } from 'chai';
import { clientSecretContext } from '../../../../../src/features/sso/sso.model.ts';
import { SYSTEM_ROLES } from '../../../../../src/features/users/index.ts';
import { visibleProviders } from '../../../../../src/features/sso/sso.queries.ts';
import type { TenantScope } from '../../../../../src/platform/db/tenant-scope.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { createEncryptor } from '../../../../../src/platform/secrets/sealed.ts';
import { buildOrganization, buildPerson, type Person } from '../../../../support/factories.ts';
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

describe('single sign-on providers', () => {
  let app: TestApp;
  let tenant: SsoTenant;
  let other: SsoTenant;
  before(async () => {
    app = await createSsoApp();
    [tenant, other] = [await buildSsoTenant(app), await buildSsoTenant(app)];
  });
  after(() => app.close());

  const as = (person: Pick<Person, 'token'>) => requestsOf(app, person);
  const make = async (body: object = {}, by: Person = tenant.admin): Promise<string> => {
    const { status, body: made } = await as(by).create({ orgId: tenant.orgId, ...body });
    expect(status, JSON.stringify(made)).to.equal(201);
    return made.id;
  };
  it('begin inactive, with the defaults of the specification', async () => {
    const { body } = await as(tenant.admin).create({ orgId: tenant.orgId });
    expect(body).to.deep.include({
      ownerScope: 'organization',
      orgId: tenant.orgId,
      partnerId: null,
      type: 'oidc',
      status: 'inactive',
      issuer: null,
      hasClientSecret: false,
      scopes: 'openid profile email',
      attributeMapping: { email: 'email', name: 'name' },
      autoProvision: true,
      defaultRoleId: null,
      allowedDomains: '',
      enforceSSO: false,
      breakGlassUserIds: [],
      configVersion: 1,
      lastSuccessAt: null,
      createdBy: tenant.admin.id,
    });
    expect((await as(tenant.admin).read(body.id)).body).to.deep.equal(body);
  });

  it('belong to the organization of its own administrator, and to the named one for everybody else', async () => {
    const { orgAdmin, admin, orgId } = tenant;
    expect((await as(orgAdmin).create({})).body.orgId).to.equal(orgId);
    expect(refusal(await as(admin).create({}))).to.deep.equal([
      400,
      'VALIDATION_FAILED',
      'body.orgId: is required',
    ]);
    expect((await as(admin).create({})).body.error).to.equal('orgId is required for partner scope');
    const system = await buildPersonWithFactor(app, { scope: 'system' });
    expect((await as(system).create({})).body.error).to.equal('orgId is required for system scope');
    expect((await as(system).create({ orgId })).status).to.equal(201);
    expect((await as(system).create({ orgId: newId() })).status).to.equal(404);
    for (const [by, elsewhere] of [
      [admin, other.orgId],
      [orgAdmin, other.orgId],
      [orgAdmin, await buildOrganization(app, tenant.partnerId)],
    ] as const) {
      expect((await as(by).create({ orgId: elsewhere })).status).to.equal(403);
    }
  });

  it('of a partner are written by its people with all organizations, and ignore orgId', async () => {
    const { admin, orgAdmin, partnerId, orgId } = tenant;
    const created = await as(admin).create({ ownerScope: 'partner', orgId: other.orgId });
    expect(created.body).to.deep.include({ ownerScope: 'partner', orgId: null, partnerId });
    const { id } = created.body;
    const selected = await buildPersonWithFactor(app, {
      scope: 'partner',
      partnerId,
      orgAccess: 'selected',
      orgIds: [orgId],
    });
    const system = await buildPersonWithFactor(app, { scope: 'system' });
    for (const person of [selected, system, orgAdmin]) {
      expect((await as(person).create({ ownerScope: 'partner' })).status).to.equal(403);
    }
    for (const person of [selected, system]) {
      expect((await as(person).read(id)).status).to.equal(200);
      for (const refused of [
        await as(person).change(id, { name: 'Mine' }),
        await as(person).status(id, 'testing'),
        await as(person).test(id),
        await as(person).remove(id),
      ]) {
        expect(refusal(refused)).to.deep.equal([403, 'FORBIDDEN']);
      }
    }
    expect((await as(admin).change(id, { name: 'Ours' })).body.name).to.equal('Ours');
  });

  it('do not exist for another tenant', async () => {
    const ids = [await make(), (await as(tenant.admin).create({ ownerScope: 'partner' })).body.id as string];
    const before = await Promise.all(ids.map((id) => storedProvider(app, id)));
    const unselected = await buildPersonWithFactor(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    const strangers: [Person, string[]][] = [
      [other.admin, ids],
      [other.orgAdmin, ids],
      [tenant.orgAdmin, ids.slice(1)],
      [unselected, ids.slice(0, 1)],
    ];
    for (const [person, hidden] of strangers) {
      const { list, read, change, status, test, remove } = as(person);
      for (const id of hidden) {
        for (const answer of [
          await read(id),
          await change(id, { name: 'Mine', clientSecret: 'mine', issuer: 'https://10.0.0.1' }),
          await status(id, 'active'),
          await test(id),
          await remove(id),
        ]) {
          expect(refusal(answer)).to.deep.equal([404, 'NOT_FOUND']);
        }
        expect(JSON.stringify((await list('?limit=100')).body)).not.to.include(id);
      }
    }
    expect(await Promise.all(ids.map((id) => storedProvider(app, id)))).to.deep.equal(before);
  });

  it('are filtered by the queries themselves, where row level security would let all of them through', async () => {
    const partnerOwned = (await as(tenant.admin).create({ ownerScope: 'partner' })).body.id;
    await make();
    const everyone = { orgAccess: 'listed', orgIds: [], userId: null } as const;
    const seen = await withSystem(app.server.database.pool, 'test', async (tx) => {
      const idsFor = async (caller: TenantScope) =>
        (await visibleProviders({ tx, caller })).map(({ id }) => id);
      return {
        organization: await idsFor({ ...everyone, scope: 'organization', partnerId: null }),
        partner: await idsFor({ ...everyone, scope: 'partner', partnerId: tenant.partnerId }),
        stranger: await idsFor({ ...everyone, scope: 'partner', partnerId: other.partnerId }),
      };
    });
    expect(seen.organization).to.deep.equal([]);
    expect(seen.partner).to.include(partnerOwned);
    expect(seen.stranger).not.to.include(partnerOwned);
  });

  it('are listed by page, by organization, and for the partner itself', async () => {
    const own = await buildSsoTenant(app);
    const { create, list } = as(own.admin);
    const second = await buildOrganization(app, own.partnerId);
    for (const body of [
      { name: 'c', orgId: own.orgId },
      { name: 'b', orgId: second },
      { name: 'a', ownerScope: 'partner' },
    ]) {
      await create(body);
    }
    const names = async (parameters: string, person = own.admin) =>
      (await as(person).list(parameters)).body.data?.map(({ name }: { name: string }) => name);
    expect(await names('')).to.deep.equal(['a', 'b', 'c']);
    expect((await list('?limit=1&page=2')).body).to.deep.include({
      pagination: { page: 2, limit: 1, total: 3 },
    });
    expect(await names(`?orgId=${second}`)).to.deep.equal(['b']);
    expect(await names('?scope=partner')).to.deep.equal(['a']);
    expect(await names('', own.orgAdmin)).to.deep.equal(['c']);
    for (const [person, parameters] of [
      [own.orgAdmin, '?scope=partner'],
      [await buildPerson(app, { scope: 'system' }), '?scope=partner'],
      [own.orgAdmin, `?orgId=${second}`],
      [own.admin, `?orgId=${other.orgId}`],
    ] as const) {
      expect((await as(person).list(parameters)).status).to.equal(403);
    }
  });

  it('are seen by everybody in the tenant, and changed with the permission and a second factor alone', async () => {
    const id = await make();
    const viewer = await buildPersonWithFactor(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    expect((await as(viewer).read(id)).status).to.equal(200);
    expect((await as(viewer).change(id, { name: 'Mine' })).status).to.equal(403);
    const withoutFactor = await buildPerson(app, { scope: 'organization', orgId: tenant.orgId });
    expect(refusal(await as(withoutFactor).change(id, { name: 'Mine' }))).to.deep.equal([
      403,
      'MFA_REQUIRED',
    ]);
  });

  it('keep their client secret sealed, tell that there is one, and forget it on request', async () => {
    const secret = 'hunter2-and-more';
    const id = await make({ clientSecret: secret });
    const sealer = createEncryptor({ current: 'a-key-that-only-tests-seal-secrets-with', old: [] });
    const stored = async () => String((await storedProvider(app, id))['client_secret']);
    expect(sealer.open(await stored(), clientSecretContext(id)).text).to.equal(secret);

    const { read, list, change, status, test } = as(tenant.admin);
    const answers = [await read(id), await list('?limit=100'), await change(id, { name: 'Renamed' })];
    answers.push(await status(id, 'testing'), await test(id));
    for (const { body } of answers) {
      expect(JSON.stringify(body)).not.to.match(/hunter2|"clientSecret"/);
      expect(JSON.stringify(body)).not.to.include(await stored());
    }
    expect((await read(id)).body.hasClientSecret).to.equal(true);
    const replaced = await change(id, { clientSecret: `${secret}-new` });
    expect(replaced.body.hasClientSecret).to.equal(true);
    expect(sealer.open(await stored(), clientSecretContext(id)).text).to.equal(`${secret}-new`);
    expect((await change(id, { clientSecret: null })).body.hasClientSecret).to.equal(false);

    await app.server.chainWriter.flush();
    const trail = await app.call('GET', '/audit-logs?limit=100', { token: tenant.admin.token });
    expect(JSON.stringify(trail.body)).not.to.include('hunter2');
    expect(JSON.stringify(app.log)).not.to.include('hunter2');
  });

  it('raise their version with each change, of which one comes after the other', async () => {
    const id = await make();
    const { change, status } = as(tenant.admin);
    expect((await change(id, { name: 'Second' })).body.configVersion).to.equal(2);
    expect((await status(id, 'testing')).body).to.deep.include({ status: 'testing', configVersion: 3 });
    const many = await Promise.all([1, 2, 3, 4].map((n) => change(id, { name: `Name ${n}` })));
    expect(many.map(({ body }) => body.configVersion)).to.have.members([4, 5, 6, 7]);
  });

  it('are active when they are fully configured, and stay so', async () => {
    const { change, status } = as(tenant.admin);
    const oidc = await make({ clientId: 'muster', ...ENDPOINTS, userInfoUrl: null });
    const refused = await status(oidc, 'active');
    expect(refused.body.error).to.equal('Provider is not fully configured');
    expect(refusal(refused)).to.deep.equal([
      400,
      'VALIDATION_FAILED',
      'issuer: is required',
      'clientSecret: is required',
    ]);
    await query(app, "update sso_providers set issuer = 'https://10.0.0.1' where id = ?", [oidc]);
    await change(oidc, { clientSecret: 'secret' });
    expect((await status(oidc, 'active')).body.status).to.equal('active');
    for (const field of ['clientId', 'clientSecret', 'issuer', 'tokenUrl']) {
      expect((await change(oidc, { [field]: null })).body.error, field).to.equal(
        'Provider is not fully configured',
      );
    }
    expect((await status(oidc, 'inactive')).body.status).to.equal('inactive');
    expect((await change(oidc, { clientId: null })).status).to.equal(200);

    const saml = await make({ type: 'saml', entityId: 'urn:idp', ssoUrl: 'https://idp.example.com/sso' });
    expect(refusal(await status(saml, 'active'))).to.deep.include('certificate: is required');
    await change(saml, { certificate: signingKey('signing').certificate });
    expect((await status(saml, 'active')).body.status).to.equal('active');
  });

  it('take their links and sign-ins under way with them, and nothing else', async () => {
    const [id, kept] = [await make(), await make()];
    for (const providerId of [id, kept]) {
      const values = [newId(), tenant.technician.id, providerId, newId()];
      await query(
        app,
        `insert into user_sso_identities (id, user_id, provider_id, external_id, profile) values (?, ?, ?, ?, '{}')`,
        values,
      );
      await query(
        app,
        `insert into sso_sessions (id, provider_id, state, nonce, expires_at) values (?, ?, ?, 'n', now())`,
        [newId(), providerId, newId()],
      );
    }
    expect((await as(tenant.admin).remove(id)).body).to.deep.equal({ success: true });
    expect((await as(tenant.admin).read(id)).status).to.equal(404);
    for (const table of ['user_sso_identities', 'sso_sessions']) {
      const left = await query(app, `select provider_id from ${table} where provider_id in (?, ?)`, [
        id,
        kept,
      ]);
      expect(left).to.deep.equal([{ provider_id: kept }]);
    }
  });
});

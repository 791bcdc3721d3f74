import { expect } from 'chai';
import { Organization } from '../../../../src/features/organizations/organization.schema.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPartner,
  buildPerson,
  buildSite,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

const ids = (body: { data: { id: string }[] }) => body.data.map(({ id }) => id);

describe('partners, organizations, sites and devices', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let stranger: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    stranger = await buildTenant(app);
    system = await buildPerson(app, { scope: 'system' });
  });
  after(async () => app.close());

  const get = (path: string, person: Person) => app.call('GET', path, { token: person.token });

  it('lists partners for the system only, without deleted ones', async () => {
    const gone = await buildPartner(app, { deleted_at: new Date() });
    const { body } = await get('/orgs/partners', system);
    expect(ids(body)).to.include.members([tenant.partnerId, stranger.partnerId]).and.not.include(gone);
    expect((await get(`/orgs/partners/${gone}`, system)).status).to.equal(404);
    expect((await get(`/orgs/partners/${tenant.partnerId}`, system)).body).to.include({
      type: 'msp',
      plan: 'free',
      status: 'active',
      deletedAt: null,
    });
  });

  it('shows each scope its own organizations', async () => {
    expect(ids((await get('/orgs/', tenant.admin)).body)).to.deep.equal([tenant.orgId]);
    expect(ids((await get('/orgs/', tenant.technician)).body)).to.deep.equal([tenant.orgId]);
    expect(ids((await get('/orgs/', system)).body)).to.include.members([tenant.orgId, stranger.orgId]);
    expect(
      ids((await get(`/orgs/organizations?partnerId=${stranger.partnerId}`, tenant.admin)).body),
    ).to.deep.equal([]);
    expect(
      ids((await get(`/orgs/organizations?partnerId=${stranger.partnerId}`, system)).body),
    ).to.deep.equal([stranger.orgId]);
    expect((await get(`/orgs/organizations/${stranger.orgId}`, tenant.admin)).status).to.equal(404);
    const nobody = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'none',
    });
    expect((await get('/orgs/', nobody)).body).to.deep.equal({ data: [] });
  });

  it('lists an organization exactly as it reads it', async () => {
    const partnerId = await buildPartner(app);
    const admin = await buildPerson(app, { scope: 'partner', partnerId });
    await buildOrganization(app, partnerId, {
      name: 'Quote " and \\ Ünïcode',
      max_devices: 3,
      settings: { nested: { list: [1, 'two', null] } },
      contract_start: '2026-01-02T03:04:05.006+02:00',
      contract_end: '2027-01-02T00:00:00Z',
      billing_contact: { email: 'a@example.com' },
    });
    await buildOrganization(app, partnerId);
    const { data } = (await get('/orgs/organizations', admin)).body;
    expect(data).to.have.length(2);
    for (const listed of data) {
      const { body } = await get(`/orgs/organizations/${listed.id}`, admin);
      expect(listed).to.deep.equal(body);
      expect(Object.keys(listed)).to.deep.equal(Object.keys(Organization.shape));
    }
    expect((await get('/orgs/', admin)).body).to.deep.equal({ data });
    const asSystem = await get(`/orgs/organizations?partnerId=${partnerId}`, system);
    expect(asSystem.body.data).to.deep.equal(data);
  });

  it('hides a deleted organization, its sites and its devices', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const { deviceId } = await buildDevice(app, orgId);
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('organizations').where({ id: orgId }).update({ deleted_at: new Date() }),
    );
    expect(ids((await get('/orgs/', tenant.admin)).body)).not.to.include(orgId);
    expect(ids((await get('/orgs/sites', tenant.admin)).body)).not.to.include(siteId);
    expect((await get(`/devices/${deviceId}`, tenant.admin)).status).to.equal(404);
  });

  it('clamps page and limit, and sorts by name in any case', async () => {
    const partnerId = await buildPartner(app);
    for (const name of ['beta', 'Alpha', 'Émile', 'gamma']) await buildOrganization(app, partnerId, { name });
    const admin = await buildPerson(app, { scope: 'partner', partnerId });
    const all = await get('/orgs/organizations?page=-1&limit=0', admin);
    expect(all.body.pagination).to.deep.equal({ page: 1, limit: 1, total: 4 });
    const large = await get('/orgs/organizations?limit=9999&page=x', admin);
    expect(large.body.pagination).to.deep.equal({ page: 1, limit: 100, total: 4 });
    expect(large.body.data.map(({ name }: { name: string }) => name)).to.deep.equal([
      'Alpha',
      'beta',
      'Émile',
      'gamma',
    ]);
    expect((await get('/orgs/organizations?page=2&limit=3', admin)).body.data).to.have.length(1);
  });

  it('answers 404 to the system for an organization that does not exist or is deleted', async () => {
    const system = await buildPerson(app, { scope: 'system' });
    const partnerId = await buildPartner(app);
    const deleted = await buildOrganization(app, partnerId);
    await app.call('DELETE', `/orgs/organizations/${deleted}`, { token: system.token });
    for (const orgId of [newId(), deleted]) {
      for (const path of ['/orgs/sites', '/enrollment-keys', '/devices', '/scripts', '/groups']) {
        const { status, body } = await get(`${path}?orgId=${orgId}`, system);
        expect([status, body.code], path).to.deep.equal([404, 'NOT_FOUND']);
      }
      const made = await app.call('POST', '/orgs/sites', {
        token: system.token,
        body: { orgId, name: 'Site' },
      });
      expect([made.status, made.body.error]).to.deep.equal([404, 'Organization not found']);
    }
  });

  it('finds devices by what they are called, run and are', async () => {
    const partnerId = await buildPartner(app);
    const orgId = await buildOrganization(app, partnerId);
    const admin = await buildPerson(app, { scope: 'partner', partnerId });
    await buildDevice(app, orgId, { hostname: 'ALPHA_1', osType: 'windows' });
    await buildDevice(app, orgId, { hostname: 'alphaX1' });
    await buildDevice(app, orgId, { hostname: 'Ünique%' });
    const names = async (query: string) =>
      (await get(`/devices?${query}`, admin)).body.data.map(({ hostname }: { hostname: string }) => hostname);
    expect(await names('search=alpha_1')).to.deep.equal(['ALPHA_1']);
    expect(await names('search=%25')).to.deep.equal(['Ünique%']);
    expect(await names(`search=${encodeURIComponent('üNIQUE')}`)).to.deep.equal(['Ünique%']);
    expect(await names('osType=windows')).to.deep.equal(['ALPHA_1']);
    expect(await names('status=online')).to.deep.equal([]);
    expect(await names('status=offline&sort=hostname&order=desc')).to.deep.equal([
      'Ünique%',
      'alphaX1',
      'ALPHA_1',
    ]);
    const wrong = await get('/devices?sort=nonsense&order=up&status=x', admin);
    expect(wrong.body.details.map(({ path }: { path: string }) => path)).to.deep.equal([
      'query.status',
      'query.sort',
      'query.order',
    ]);
  });
});

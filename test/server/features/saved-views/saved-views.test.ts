import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('saved views', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const VIEW = {
    list: 'devices',
    name: 'Servers that are offline',
    search: { status: ['offline'], q: 'srv' },
  };
  const save = (person: Person, more: object = {}) =>
    app.call('POST', '/saved-views', { token: person.token, body: { ...VIEW, ...more } });
  const list = async (person: Person, of = 'devices') => {
    const { body } = await app.call('GET', `/saved-views?list=${of}`, { token: person.token });
    return (body.data as { name: string; isOwn: boolean; ownerName: string }[]).map(
      ({ name, isOwn }) => `${name}${isOwn ? '' : ' of a colleague'}`,
    );
  };
  const at = (id: string) => `/saved-views/${id}`;

  it('are kept for their person, on every browser, by name', async () => {
    const { status, body } = await save(tenant.technician);
    expect(status).to.equal(201);
    expect(body).to.deep.include({ ...VIEW, isShared: false, isOwn: true });
    await save(tenant.technician, { name: 'All Macs', search: { os: ['macos'] } });
    await save(tenant.technician, { list: 'alerts', name: 'Mine' });
    expect(await list(tenant.technician)).to.deep.equal(['All Macs', 'Servers that are offline']);
    const { token } = tenant.technician;
    await app.call('PATCH', at(body.id), { token, body: { name: 'Dark servers', search: {} } });
    expect(await list(tenant.technician)).to.deep.equal(['All Macs', 'Dark servers']);
    await app.call('DELETE', at(body.id), { token });
    expect(await list(tenant.technician)).to.deep.equal(['All Macs']);
  });

  it('are shown to colleagues if they are shared, who cannot change them', async () => {
    const colleague = await buildPerson(app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const { id } = (await save(tenant.technician)).body;
    expect(await list(colleague)).to.deep.equal([]);
    await app.call('PATCH', at(id), { token: tenant.technician.token, body: { isShared: true } });
    const { data } = (await app.call('GET', '/saved-views?list=devices', { token: colleague.token })).body;
    expect(data[0]).to.deep.include({ name: VIEW.name, isOwn: false, search: VIEW.search });
    expect(data[0].ownerName).to.match(/^Person \d+$/);
    for (const method of ['PATCH', 'DELETE'] as const) {
      const refused = await app.call(method, at(id), { token: colleague.token, body: { name: 'x' } });
      expect(refused.status, method).to.equal(404);
    }
  });

  it('are shared within the organization or the partner in which they were made, and nowhere else', async () => {
    const { partnerId } = tenant;
    const everywhere = await buildPerson(app, { scope: 'partner', partnerId });
    const somewhere = await buildPerson(app, {
      scope: 'partner',
      partnerId,
      orgAccess: 'selected',
      orgIds: [tenant.orgId],
    });
    const stranger = await buildTenant(app);
    await save(tenant.admin, { name: 'Of the provider', isShared: true });
    await save(tenant.technician, { name: 'Of the customer', isShared: true });
    expect(await list(everywhere)).to.deep.equal(['Of the provider of a colleague']);
    // It may say what was searched for in organizations that the person does not see.
    expect(await list(somewhere)).to.deep.equal([]);
    expect(await list(tenant.technician)).to.deep.equal(['Of the customer']);
    expect(await list(stranger.admin)).to.deep.equal([]);
    expect(await list(stranger.technician)).to.deep.equal([]);
  });

  it('have one name each, and refuse nonsense with the name of the field', async () => {
    await save(tenant.technician);
    const again = await save(tenant.technician, { name: 'SERVERS that are offline' });
    expect([again.status, again.body.details]).to.deep.equal([
      409,
      [{ path: 'body.name', message: 'must be unique' }],
    ]);
    // The same name on another list, and of another person, is another view.
    expect((await save(tenant.technician, { list: 'alerts' })).status).to.equal(201);
    expect((await save(tenant.admin)).status).to.equal(201);
    for (const [field, body] of [
      ['name', { name: '' }],
      ['name', { name: 'x'.repeat(61) }],
      ['list', { list: '../etc' }],
      ['search', { search: { q: 'x'.repeat(5000) } }],
      ['search', { search: ['a'] }],
      ['isShared', { isShared: 'yes' }],
    ] as const) {
      const refused = await save(tenant.technician, body);
      expect(refused.status, JSON.stringify(body).slice(0, 60)).to.equal(400);
      expect(JSON.stringify(refused.body)).to.contain(`body.${field}`);
    }
    expect((await app.call('GET', '/saved-views', { token: tenant.technician.token })).status).to.equal(400);
  });
});

import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('search for people, sites, organizations, groups and filters', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const owner = (sql: string, values: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
  const post = async (path: string, body: object) => {
    const answer = await app.call('POST', path, { token: tenant.admin.token, body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body as { id: string };
  };
  async function find(q: string, as: Person = tenant.admin) {
    const answer = await app.call('GET', `/search?${new URLSearchParams({ q, limit: '50' }).toString()}`, {
      token: as.token,
    });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    return answer.body.results as {
      id: string;
      type: string;
      title: string;
      description?: string;
      href?: string;
    }[];
  }
  const reader = async (permissions: string[]) => {
    const role = await post('/roles', { name: `Readers ${newId()}`, scope: 'partner', permissions });
    return buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId, role: role.id });
  };

  it('finds people by name and address, those who signed in last first', async () => {
    const names = ['Nadia Needle', 'Norbert Needle', 'Nina Needle'];
    for (const [place, name] of names.entries()) {
      const person = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
      await owner(`update users set name = $2, last_login_at = now() - $3::interval where id = $1`, [
        person.id,
        name,
        `${place === 1 ? 1 : 20 + place} days`,
      ]);
    }
    await owner(`update users set last_login_at = null where name = 'Nina Needle'`, []);
    const found = await find('needle');
    expect(found.map(({ type, title }) => [type, title])).to.deep.equal([
      ['users', 'Norbert Needle'],
      ['users', 'Nadia Needle'],
      ['users', 'Nina Needle'],
    ]);
    const [first] = found;
    expect(first?.description).to.include('@');
    expect((await find(first?.description ?? '')).map(({ title }) => title)).to.deep.equal([
      'Norbert Needle',
    ]);
    const all = await find('needle', await reader(['devices:read', 'sites:read']));
    expect(all).to.deep.equal([]);
  });

  it('finds sites with their organizations, organizations, groups and filters', async () => {
    const orgId = await buildOrganization(app, tenant.partnerId);
    await owner(`update organizations set name = 'Needle Works' where id = $1`, [orgId]);
    const site = await post('/orgs/sites', { orgId, name: 'Porto needle' });
    const group = await post('/groups', {
      orgId,
      name: 'Needle tills',
      type: 'static',
      description: 'All of them',
    });
    const conditions = {
      operator: 'AND',
      conditions: [{ field: 'hostname', operator: 'equals', value: 'x' }],
    };
    const filter = await post('/filters', { orgId, name: 'Old needles', conditions });
    expect(await find('NEEDLE')).to.deep.equal([
      { id: orgId, type: 'organizations', title: 'Needle Works' },
      { id: group.id, type: 'groups', title: 'Needle tills', description: 'All of them' },
      { id: site.id, type: 'sites', title: 'Porto needle', description: 'Needle Works' },
      { id: filter.id, type: 'filters', title: 'Old needles' },
    ]);
    for (const [permission, types] of [
      ['sites:read', ['organizations', 'sites']],
      ['devices:read', ['organizations', 'groups']],
      ['filters:read', ['organizations', 'filters']],
      // Everyone may read the names of their organizations.
      ['alerts:read', ['organizations']],
    ] as const) {
      expect(
        (await find('needle', await reader([permission]))).map(({ type }) => type),
        permission,
      ).to.have.members(types);
    }
    await owner('update organizations set deleted_at = now() where id = $1', [orgId]);
    expect(await find('needle')).to.deep.equal([]);
  });

  it('shows none of another tenant, and of a partner only what the person may see', async () => {
    const stranger = await buildTenant(app);
    const sibling = await buildOrganization(app, tenant.partnerId);
    await owner(`update organizations set name = 'Needle ' || id where id = any($1)`, [
      [sibling, stranger.orgId, tenant.orgId],
    ]);
    for (const orgId of [sibling, stranger.orgId, tenant.orgId]) {
      await owner(`insert into sites (id, org_id, name) values ($1, $2, 'Needle site')`, [newId(), orgId]);
      await owner(`insert into device_groups (id, org_id, name) values ($1, $2, 'Needle group')`, [
        newId(),
        orgId,
      ]);
      await owner(
        `insert into saved_filters (id, org_id, name, conditions) values ($1, $2, 'Needle filter', '{}')`,
        [newId(), orgId],
      );
      const person = await buildPerson(app, { scope: 'organization', orgId });
      await owner(`update users set name = 'Needle person' where id = $1`, [person.id]);
    }
    const counts = async (as: Person) => {
      const found = await find('needle', as);
      return Object.fromEntries(
        ['users', 'organizations', 'sites', 'groups', 'filters'].map((type) => [
          type,
          found.filter((one) => one.type === type).length,
        ]),
      );
    };
    expect(await counts(tenant.admin)).to.deep.equal({
      users: 2,
      organizations: 2,
      sites: 2,
      groups: 2,
      filters: 2,
    });
    const part = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [sibling],
    });
    expect(await counts(part)).to.deep.equal({ users: 1, organizations: 1, sites: 1, groups: 1, filters: 1 });
    const seen = await find(stranger.orgId, tenant.admin);
    expect(seen).to.deep.equal([]);
  });

  it('shows an address of the settings only of pages', async () => {
    const found = await find('sites');
    expect(found.filter(({ type }) => type === 'settings').every(({ href }) => href !== undefined)).to.equal(
      true,
    );
    expect(found.filter(({ type }) => type !== 'settings').some(({ href }) => href !== undefined)).to.equal(
      false,
    );
  });
});

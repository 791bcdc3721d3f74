import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { newId } from '../../../../src/platform/ids.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildTenant,
  type Person,
} from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

interface Result {
  id: string;
  type: string;
  title: string;
  description?: string;
  href?: string;
}

describe('search', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const call = async (query: Record<string, string | number>, person: Person = tenant.admin) =>
    app.call('GET', `/search?${new URLSearchParams(query as Record<string, string>).toString()}`, {
      token: person.token,
    });
  async function find(q: string, more: { limit?: number; as?: Person } = {}): Promise<Result[]> {
    const { as, limit } = more;
    const answer = await call({ q, ...(limit === undefined ? {} : { limit }) }, as);
    expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
    expect(Object.keys(answer.body)).to.deep.equal(['results']);
    return answer.body.results;
  }
  const titles = async (...of: Parameters<typeof find>) => (await find(...of)).map(({ title }) => title);
  const owner = (sql: string, values: unknown[]) => asOwner(app.database.ownerUrl, sql, values);
  async function device(hostname: string, displayName: string | null = null, orgId = tenant.orgId) {
    const { deviceId } = await buildDevice(app, orgId, { hostname });
    await owner('update devices set display_name = $2 where id = $1', [deviceId, displayName]);
    return deviceId;
  }
  const script = async (
    name: string,
    description: string | null = null,
    body: object = { orgId: tenant.orgId },
  ) =>
    app.call('POST', '/scripts', {
      token: tenant.admin.token,
      body: { name, description, language: 'bash', content: 'true', ...body },
    });
  async function alert(title: string, message: string, more: { orgId?: string; status?: string } = {}) {
    const id = newId();
    await owner(
      `insert into alerts (id, org_id, kind, severity, status, title, message, resolved_at)
      values ($1, $2, 'test_' || replace($1::uuid::text, '-', '_'), 'high', $3, $4, $5, case when $3 = 'resolved' then now() end)`,
      [id, more.orgId ?? tenant.orgId, more.status ?? 'active', title, message],
    );
    return id;
  }

  it('finds devices by host name and display name, in any case', async () => {
    const one = await device('NEEDLE-PC-01');
    const two = await device('srv-04', 'Reception needle');
    await device('other');
    expect(await find('nEEdLe')).to.deep.equal([
      { id: one, type: 'devices', title: 'NEEDLE-PC-01', description: 'Debian 12' },
      { id: two, type: 'devices', title: 'Reception needle', description: 'srv-04' },
    ]);
    expect(await titles('SRV-04')).to.deep.equal(['Reception needle']);
  });

  it('finds scripts by name and description, alerts by title and message, and pages of the settings', async () => {
    const own = await script('Needle cleanup');
    const partners = await script('Purge', 'Removes every needle', {});
    const raised = await alert('Disk is full', 'needle has 2 % left');
    expect(await find('needle')).to.deep.equal([
      { id: own.body.id, type: 'scripts', title: 'Needle cleanup' },
      { id: raised, type: 'alerts', title: 'Disk is full', description: 'needle has 2 % left' },
      { id: partners.body.id, type: 'scripts', title: 'Purge', description: 'Removes every needle' },
    ]);
    expect(await find('API key')).to.deep.equal([
      {
        id: 'settings.api-keys',
        type: 'settings',
        title: 'API keys',
        description: 'Access for programs, with scopes and expiry',
        href: '/api-keys',
      },
    ]);
  });

  it('puts the whole name first, then its beginning, then the beginning of a word, then any part', async () => {
    for (const name of ['xneedle', 'big-needle', 'needle-2', 'needle', 'needle-1']) await device(name);
    expect(await titles('needle')).to.deep.equal(['needle', 'needle-1', 'needle-2', 'big-needle', 'xneedle']);
  });

  it('knows the beginning of a word by small letters as the database has them', async () => {
    for (const name of ['aİst', 'z-İst', 'aΣ', 'z-Σ']) await device(name);
    expect(await titles('İST')).to.deep.equal(['z-İst', 'aİst']);
    expect(await titles('Σ')).to.deep.equal(['z-Σ', 'aΣ']);
  });

  it('shows open alerts before resolved ones, the newest first', async () => {
    await alert('Needle', 'older', { status: 'resolved' });
    await alert('Needle', 'old');
    await alert('Needle', 'new');
    await alert('Needle', 'newest', { status: 'resolved' });
    await owner(
      `update alerts set raised_at = now() - interval '1 day' where message like 'old%' and org_id = $1`,
      [tenant.orgId],
    );
    expect((await find('needle')).map(({ description }) => description)).to.deep.equal([
      'new',
      'old',
      'newest',
      'older',
    ]);
  });

  it('keeps room for each kind if there is more than fits', async () => {
    for (let i = 0; i < 12; i++) await device(`needle-${i}`);
    await script('Old', 'A needle');
    expect((await find('needle', { limit: 8 })).map(({ type }) => type)).to.deep.equal([
      ...Array.from({ length: 7 }, () => 'devices'),
      'scripts',
    ]);
    expect(await find('needle', { limit: 1 })).to.have.length(1);
  });

  it('takes wildcards, quotes and backslashes as they are', async () => {
    await device('a%b_c', String.raw`C:\share 'x'`);
    await device('aXbYc', 'CZ:share x');
    for (const q of ['%', '_', 'a%b_c', String.raw`c:\s`, `'x'`, String.raw`\ `.trim()]) {
      expect(await titles(q), q).to.deep.equal([String.raw`C:\share 'x'`]);
    }
    expect(await titles('😀'.repeat(100))).to.deep.equal([]);
    expect(await titles(`'; drop table devices; --`)).to.deep.equal([]);
  });

  it('shows nothing from outside of the scope of the caller', async () => {
    const stranger = await buildTenant(app);
    const sibling = await buildOrganization(app, tenant.partnerId);
    await device('scoped-mine');
    await device('scoped-sibling', null, sibling);
    await device('scoped-stranger', null, stranger.orgId);
    await alert('scoped', 'stranger', { orgId: stranger.orgId });
    await script('scoped of all', null, {});
    const system = await buildPerson(app, { scope: 'system' });
    const seen = async (as: Person) => (await titles('scoped', { as })).sort();
    expect(await seen(tenant.admin)).to.deep.equal(['scoped of all', 'scoped-mine', 'scoped-sibling']);
    expect(await seen(tenant.technician)).to.deep.equal(['scoped-mine']);
    expect(await seen(stranger.admin)).to.deep.equal(['scoped', 'scoped-stranger']);
    expect(await seen(system)).to.include.members(['scoped-mine', 'scoped-stranger', 'scoped of all']);
  });

  it('leaves out what the caller may not read', async () => {
    await device('needle');
    await script('needle');
    await alert('needle', '');
    const role = await app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: `Readers ${newId()}`, scope: 'partner', permissions: ['scripts:read'] },
    });
    expect(role.status, JSON.stringify(role.body)).to.equal(201);
    const reader = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: role.body.id,
    });
    expect((await find('needle', { as: reader })).map(({ type }) => type)).to.deep.equal(['scripts']);
    expect(await titles('saved filters', { as: reader })).to.deep.equal([]);
    const viewer = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    expect((await find('needle', { as: viewer })).map(({ type }) => type)).to.have.members([
      'devices',
      'scripts',
      'alerts',
    ]);
  });

  it('does not find devices that were decommissioned', async () => {
    const id = await device('needle');
    await app.call('DELETE', `/devices/${id}`, { token: tenant.admin.token });
    expect(await titles('needle')).to.deep.equal([]);
  });

  it('names what is wrong with a query', async () => {
    const faults = async (query: Record<string, string>) => (await call(query)).body.details;
    expect((await faults({}))[0].path).to.equal('query.q');
    expect((await faults({ q: '   ' }))[0].path).to.equal('query.q');
    expect(
      (await faults({ q: 'x'.repeat(101), limit: '51' })).map((fault: { path: string }) => fault.path),
    ).to.deep.equal(['query.q', 'query.limit']);
    expect((await faults({ q: 'a\0b' }))[0].path).to.equal('query.q');
    expect((await faults({ q: 'a', limit: '0' }))[0].message).to.equal('must be from 1 to 50');
    expect(await titles(`  ${'x'.repeat(100)}  `)).to.deep.equal([]);
  });
});

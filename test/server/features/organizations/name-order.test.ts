import { expect } from 'chai';
import { nameOrder } from '../../../../src/platform/db/statement.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { buildDevice, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

/** By code point `Zed` stands before `apple`, and `Äpfel` behind all others. */
const NAMES = [
  'Zed',
  'apple',
  'Äpfel',
  'Öl',
  'Berlin',
  'éclair',
  'zebra',
  'Ärger',
  'item 2',
  'ITEM 1',
  'Łódź',
];
const IN_ORDER = NAMES.toSorted(new Intl.Collator('en').compare);

describe('lists that are in the order of names', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let system: Person;

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
    system = await buildPerson(app, { scope: 'system' });
    const { orgId } = tenant;
    const make = async (path: string, body: object, token = tenant.admin.token) => {
      const answer = await app.call('POST', path, { token, body });
      expect(answer.status, `${path} ${JSON.stringify(answer.body)}`).to.equal(201);
    };
    for (const name of NAMES) {
      const slug = `s-${newId()}`;
      await make('/orgs/partners', { name, slug }, system.token);
      await make('/orgs/organizations', { name, slug });
      await make('/orgs/sites', { name, orgId });
      await make('/scripts', { name, language: 'bash', content: 'true', orgId });
      await make('/groups', { name, orgId });
      await make('/roles', { name, scope: 'partner', permissions: ['devices:read'] });
      const person = await buildPerson(app, { scope: 'organization', orgId });
      const { deviceId, token } = await buildDevice(app, orgId, { hostname: name });
      await withSystem(app.server.database.pool, 'test', async (tx) => {
        await tx('users').where({ id: person.id }).update({ name });
        await tx('devices').where({ id: deviceId }).update({ display_name: name });
      });
      await app.call('POST', `/agents/${deviceId}/inventory`, {
        token,
        body: { software: [{ name, version: '1' }], collectedAt: '2026-03-01T08:00:00Z' },
      });
    }
  });
  after(async () => app.close());

  const ordered = (rows: Record<string, unknown>[], field: string) => {
    const names = rows.map((row) => row[field]);
    return names.filter((name) => NAMES.includes(String(name)));
  };

  for (const [path, field] of [
    ['/orgs/', 'name'],
    ['/orgs/organizations', 'name'],
    ['/orgs/sites', 'name'],
    ['/scripts', 'name'],
    ['/groups', 'name'],
    ['/roles', 'name'],
    ['/users', 'name'],
    ['/devices', 'hostname'],
    ['/devices?sort=displayName', 'displayName'],
    ['/software', 'name'],
  ] as const) {
    it(`show ${path} as people sort them`, async () => {
      const { status, body } = await app.call('GET', path, { token: tenant.admin.token });
      expect(status).to.equal(200);
      expect(ordered(body.data, field)).to.deep.equal(IN_ORDER);
    });
  }

  it('show partners as people sort them', async () => {
    const { body } = await app.call('GET', '/orgs/partners', { token: system.token });
    expect(ordered(body.data, 'name')).to.deep.equal(IN_ORDER);
  });

  it('show the preview of a filter as people sort it', async () => {
    const { body } = await app.call('POST', '/filters/preview', {
      token: tenant.admin.token,
      body: {
        conditions: { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNotNull' }] },
        limit: 100,
      },
    });
    expect(ordered(body.data.devices, 'hostname')).to.deep.equal(IN_ORDER);
  });

  const planOf = (sql: string, values: string[]) =>
    withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx.raw('set local enable_seqscan = off');
      await tx.raw('set local enable_bitmapscan = off');
      const { rows } = await tx.raw<{ rows: Record<string, string>[] }>(`explain ${sql}`, values);
      return rows.map((row) => row['QUERY PLAN']).join('\n');
    });

  it('read a page of organizations from an index in that order', async () => {
    const plan = await planOf(
      `select * from organizations where partner_id = ? and deleted_at is null
      order by ${nameOrder('organizations.name')}, organizations.id limit 50`,
      [tenant.partnerId],
    );
    expect(plan).to.include('organizations_in_order').and.not.include('Sort');
  });

  it('read the names of devices from an index, and no record', async () => {
    const plan = await planOf(
      `select d.id, ${nameOrder('d.hostname')} from devices d
      where d.org_id = ? and d.condition <> 'decommissioned'`,
      [tenant.orgId],
    );
    expect(plan).to.include('Index Only Scan using devices_listed');
  });
});

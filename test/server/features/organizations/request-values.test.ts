import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type Answer, type TestApp } from '../../../support/test-app.ts';

type Body = Record<string, unknown>;

describe('values in requests', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let site: string;
  let organization: string;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    site = `/orgs/sites/${tenant.siteId}`;
    organization = `/orgs/organizations/${tenant.orgId}`;
  });
  after(async () => app.close());

  const send = (method: string, path: string, body?: Body): Promise<Answer> =>
    app.call(method, path, { token: tenant.admin.token, ...(body === undefined ? {} : { body }) });
  const sendText = (method: string, path: string, rawBody: string): Promise<Answer> =>
    app.call(method, path, { token: tenant.admin.token, rawBody });
  const faultOf = ({ status, body }: Answer) => [status, body.details?.[0]?.path];

  describe('that are free-form JSON', () => {
    it('are stored exactly as sent, whatever their type', async () => {
      for (const value of [
        'Main Street 1',
        '123',
        '"quoted"',
        'null',
        '',
        42,
        -0.5,
        true,
        false,
        ['Floor 2', { desk: 7 }],
        [],
        { street: 'Main Street 1', nested: { list: [null, 1] } },
      ]) {
        const { status, body } = await send('PATCH', site, { address: value, contact: value });
        expect([status, body.address, body.contact], JSON.stringify(value)).to.deep.equal([
          200,
          value,
          value,
        ]);
        const read = await send('GET', site);
        expect([read.body.address, read.body.contact], JSON.stringify(value)).to.deep.equal([value, value]);
        const changed = await send('PATCH', organization, { billingContact: value });
        expect(changed.body.billingContact, JSON.stringify(value)).to.deep.equal(value);
        const listed = (await send('GET', '/orgs/organizations')).body.data.find(
          ({ id }: { id: string }) => id === tenant.orgId,
        );
        expect(listed.billingContact, JSON.stringify(value)).to.deep.equal(value);
      }
    });

    it('are cleared by null', async () => {
      await send('PATCH', site, { address: 'x', contact: 'x' });
      const { body } = await send('PATCH', site, { address: null, contact: null });
      expect([body.address, body.contact]).to.deep.equal([null, null]);
    });

    it('are refused if they are deeper or larger than anybody needs, or cannot be stored', async () => {
      const deep = JSON.parse('['.repeat(40) + ']'.repeat(40)) as unknown;
      for (const [value, rule] of [
        [deep, 'must not be nested deeper than 32 levels'],
        ['x'.repeat(70_000), 'must not have more than 65536 characters as JSON'],
        [{ a: 'x'.repeat(70_000) }, 'must not have more than 65536 characters as JSON'],
        ['a\0b', 'must not contain NUL'],
        [['a\ud800'], 'must not contain NUL'],
        [{ 'a\0': 1 }, 'must not contain NUL'],
      ] as const) {
        const { status, body } = await send('PATCH', site, { address: value });
        expect([status, body.details?.length]).to.deep.equal([400, 1]);
        expect(body.details[0].path).to.match(/^body\.address/);
        expect(body.details[0].message).to.include(rule);
      }
    });

    it('are objects if they hold settings', async () => {
      for (const value of ['x', 1, true, ['x'], null]) {
        expect(faultOf(await send('PATCH', site, { settings: value }))).to.deep.equal([400, 'body.settings']);
        expect(faultOf(await send('PATCH', organization, { ssoConfig: value }))).to.deep.equal([
          400,
          'body.ssoConfig',
        ]);
      }
    });
  });

  describe('that are times', () => {
    it('may be days, which begin at midnight UTC', async () => {
      const { status, body } = await send('PATCH', organization, {
        contractStart: '2026-01-31',
        contractEnd: '2027-01-31T08:00:00+02:00',
      });
      expect(status, JSON.stringify(body)).to.equal(200);
      expect([body.contractStart, body.contractEnd]).to.deep.equal([
        '2026-01-31T00:00:00.000Z',
        '2027-01-31T06:00:00.000Z',
      ]);
      const key = await send('POST', '/enrollment-keys', {
        orgId: tenant.orgId,
        name: 'Key',
        expiresAt: '2100-01-01',
      });
      expect([key.status, key.body.expiresAt]).to.deep.equal([201, '2100-01-01T00:00:00.000Z']);
      const { deviceId } = await buildDevice(app, tenant.orgId);
      const until = new Date(Date.now() + 48 * 3_600_000).toISOString().slice(0, 10);
      const maintained = await send('POST', `/devices/${deviceId}/maintenance`, { enabled: true, until });
      expect([maintained.status, maintained.body.maintenanceUntil]).to.deep.equal([
        200,
        `${until}T00:00:00.000Z`,
      ]);
    });

    it('may be days in queries, of which a last one counts to its end', async () => {
      const { deviceId, token } = await buildDevice(app, tenant.orgId);
      const line = { level: 'info', component: 'x', message: 'x' };
      await app.call('POST', `/agents/${deviceId}/logs`, {
        token,
        body: {
          logs: ['2026-03-01T23:59:59.999Z', '2026-03-02T00:00:00Z', '2026-03-02T23:59:59.999Z'].map(
            (timestamp) => ({ ...line, timestamp }),
          ),
        },
      });
      for (const [query, total] of [
        ['since=2026-03-02', 2],
        ['until=2026-03-01', 1],
        ['until=2026-03-02', 3],
        ['since=2026-03-02&until=2026-03-02', 2],
      ] as const) {
        const { body } = await send('GET', `/devices/${deviceId}/diagnostic-logs?${query}`);
        expect(body.total, query).to.equal(total);
      }
    });

    it('are refused if they are none, or beyond what the database holds', async () => {
      for (const value of [
        'tomorrow',
        '2026-02-30',
        '2026-01-01T00:00:00',
        '20260101',
        '0000-01-01',
        '0000-12-31T23:59:59Z',
        '0001-01-01T00:00:00+01:00',
        '9999-12-31T23:59:59-01:00',
        1_700_000_000,
      ]) {
        const answer = await send('PATCH', organization, { contractStart: value });
        expect(faultOf(answer), `${value}`).to.deep.equal([400, 'body.contractStart']);
      }
      for (const value of ['0000-01-01', '9999-12-31T23:59:59-01:00']) {
        const answer = await send('GET', `/alerts?from=${value}`);
        expect(faultOf(answer), value).to.deep.equal([400, 'query.from']);
      }
      const first = await send('PATCH', organization, {
        contractStart: '0001-01-01',
        contractEnd: '9999-12-31',
      });
      expect([first.body.contractStart, first.body.contractEnd]).to.deep.equal([
        '0001-01-01T00:00:00.000Z',
        '9999-12-31T00:00:00.000Z',
      ]);
    });
  });

  it('of optional fields may be null, which stores nothing', async () => {
    const key = await send('POST', '/enrollment-keys', {
      orgId: tenant.orgId,
      siteId: null,
      name: 'Key',
      maxUsage: null,
      expiresAt: null,
    });
    expect(key.status, JSON.stringify(key.body)).to.equal(201);
    expect(key.body).to.include({ siteId: null, maxUsage: null, expiresAt: null });
    const script = await send('POST', '/scripts', {
      orgId: null,
      name: 'Script',
      description: null,
      language: 'bash',
      content: 'true',
    });
    expect([script.status, script.body.orgId]).to.deep.equal([201, null]);
    const enrolled = await app.call('POST', '/agents/enroll', {
      body: {
        enrollmentKey: key.body.key,
        hostname: 'null-host',
        osType: 'linux',
        osVersion: '1',
        osBuild: null,
        architecture: 'x64',
        agentVersion: '1.0.0',
        machineId: null,
      },
    });
    expect(enrolled.status, JSON.stringify(enrolled.body)).to.equal(201);
    const { deviceId } = enrolled.body;
    const maintained = await send('POST', `/devices/${deviceId}/maintenance`, { enabled: true, until: null });
    expect([maintained.status, maintained.body.maintenanceUntil]).to.deep.equal([200, null]);
    // What always has a value is not cleared.
    expect(faultOf(await send('PATCH', site, { name: null }))).to.deep.equal([400, 'body.name']);
    expect(faultOf(await send('PATCH', site, { timezone: null }))).to.deep.equal([400, 'body.timezone']);
  });

  it('that are ids are the same in capital letters', async () => {
    const orgId = tenant.orgId.toUpperCase();
    const siteId = tenant.siteId.toUpperCase();
    const key = await send('POST', '/enrollment-keys', { orgId, siteId, name: 'Key' });
    expect([key.status, key.body.siteId], JSON.stringify(key.body)).to.deep.equal([201, tenant.siteId]);
    expect((await send('PATCH', `/orgs/sites/${siteId}`, { orgId, name: 'Hall' })).status).to.equal(200);
    expect((await send('PATCH', `/orgs/organizations/${orgId}`, { name: 'Capital' })).status).to.equal(200);
    expect((await send('GET', `/orgs/sites?orgId=${orgId}`)).body.pagination.total).to.be.greaterThan(0);
    const partnerId = tenant.partnerId.toUpperCase();
    const made = await send('POST', '/orgs/organizations', { name: 'Own', slug: `s-${newId()}`, partnerId });
    expect(made.status, JSON.stringify(made.body)).to.equal(201);
    const order = await send('PATCH', '/orgs/organizations/order', {
      organizationOrder: [made.body.id.toUpperCase(), orgId],
    });
    expect(order.body.organizationOrder).to.deep.equal([made.body.id, tenant.orgId]);
  });

  describe('that JSON.parse would change without a word are refused:', () => {
    it('numbers that are too large, at any depth, by their path', async () => {
      for (const [text, path] of [
        ['{"settings":{"limit":1e309}}', 'body.settings.limit'],
        ['{"settings":{"list":[1,{"n":-1E+400}]}}', 'body.settings.list.1.n'],
        [`{"settings":{"n":${'9'.repeat(400)}}}`, 'body.settings.n'],
        ['{"address":1e999}', 'body.address'],
      ] as const) {
        const answer = await sendText('PATCH', site, text);
        expect(faultOf(answer), text.slice(0, 40)).to.deep.equal([400, path]);
        expect(answer.body.details[0].message).to.equal('must be a number within ±1.8e308');
      }
      const fine = await sendText('PATCH', site, '{"settings":{"n":1.7e308,"small":1e-400,"text":"1e309"}}');
      expect([fine.status, fine.body.settings]).to.deep.equal([200, { n: 1.7e308, small: 0, text: '1e309' }]);
    });

    it('bytes that are no UTF-8', async () => {
      for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0xaf]]) {
        const body = Buffer.concat([Buffer.from('{"name":"a'), Buffer.from(bytes), Buffer.from('"}')]);
        const response = await fetch(`${app.url}/api/v1${site}`, {
          method: 'PATCH',
          headers: { authorization: `Bearer ${tenant.admin.token}`, 'content-type': 'application/json' },
          body: new Uint8Array(body),
        });
        const answer = (await response.json()) as { code: string; details: { path: string }[] };
        expect([response.status, answer.code, answer.details[0]?.path]).to.deep.equal([
          400,
          'VALIDATION_FAILED',
          'body',
        ]);
      }
    });

    it('a key that stands twice', async () => {
      const answer = await sendText('PATCH', site, '{"settings":{"a":1,"a":2}}');
      expect(faultOf(answer)).to.deep.equal([400, 'body.settings.a']);
      expect(answer.body.details[0].message).to.equal('Duplicate key.');
    });
  });
});

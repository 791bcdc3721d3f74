import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

type Entry = Record<string, unknown>;

const line = (more: Entry = {}): Entry => ({
  timestamp: '2026-03-01T08:00:00.000Z',
  level: 'info',
  component: 'connection',
  message: 'connected',
  ...more,
});

describe('diagnostic logs', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId, { agentVersion: '1.4.0' });
  });

  const submit = (logs: unknown, { deviceId, token } = device) =>
    app.call('POST', `/agents/${deviceId}/logs`, { token, body: { logs } });
  const read = (query = '', token = tenant.admin.token) =>
    app.call('GET', `/devices/${device.deviceId}/diagnostic-logs${query}`, { token });
  const messages = async (query: string) =>
    (await read(query)).body.logs.map(({ message }: { message: string }) => message);

  it('are kept as they were sent, and shown newest first', async () => {
    const fields = { tries: 3, nested: { list: [1, 'two', null] } };
    const { status, body } = await submit([
      line({ fields, agentVersion: '1.3.9', message: 'ünï 😀 "\\ \n' }),
      line({ timestamp: '2026-03-01T09:00:00+00:30', level: 'error' }),
    ]);
    expect([status, body]).to.deep.equal([201, { received: 2 }]);
    const shown = await read();
    expect(shown.body).to.include({ total: 2, limit: 50, offset: 0 });
    expect(shown.body.logs[0]).to.deep.include({
      timestamp: '2026-03-01T08:30:00.000Z',
      level: 'error',
      fields: null,
      agentVersion: '1.4.0',
    });
    expect(shown.body.logs[1]).to.deep.include({
      fields,
      agentVersion: '1.3.9',
      message: 'ünï 😀 "\\ \n',
      component: 'connection',
      deviceId: device.deviceId,
      orgId: tenant.orgId,
    });
    expect((await submit([])).body).to.deep.equal({ received: 0 });
  });

  it('are found by each condition, page by page', async () => {
    await submit([
      line({ message: 'Alpha 100%', level: 'debug' }),
      line({ message: 'beta_1', level: 'warn', component: 'agent', timestamp: '2026-03-01T09:00:00Z' }),
      line({ message: 'gamma', level: 'error', timestamp: '2026-03-01T10:00:00Z' }),
    ]);
    expect(await messages('')).to.deep.equal(['gamma', 'beta_1', 'Alpha 100%']);
    expect(await messages('?level=warn,error')).to.deep.equal(['gamma', 'beta_1']);
    expect(await messages('?component=agent')).to.deep.equal(['beta_1']);
    expect(await messages('?component=age')).to.deep.equal([]);
    expect(await messages('?since=2026-03-01T09:00:00Z')).to.deep.equal(['gamma', 'beta_1']);
    expect(await messages('?until=2026-03-01T09:00:00Z')).to.deep.equal(['beta_1', 'Alpha 100%']);
    expect(await messages('?search=ALPHA')).to.deep.equal(['Alpha 100%']);
    // Wildcards are text like any other.
    expect(await messages('?search=%25')).to.deep.equal(['Alpha 100%']);
    expect(await messages('?search=_')).to.deep.equal(['beta_1']);
    expect(await messages('?level=debug&search=100&component=connection')).to.deep.equal(['Alpha 100%']);
    const { body } = await read('?page=2&limit=2');
    expect(body).to.include({ total: 3, limit: 2, offset: 2 });
    expect(body.logs).to.have.length(1);
  });

  it('are not looked for by conditions that make no sense', async () => {
    for (const [query, path] of [
      ['?since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z', 'query.since'],
      ['?since=2026-02-30', 'query.since'],
      ['?level=warning', 'query.level.0'],
      ['?search=', 'query.search'],
      ['?component=%00', 'query.component'],
    ]) {
      const { status, body } = await read(query);
      expect([status, body.details?.[0]?.path], query).to.deep.equal([400, path]);
    }
  });

  it('have characters replaced that the database cannot store', async () => {
    expect((await submit([line({ message: 'a\0b', fields: { deep: ['\udc00'] } })])).status).to.equal(201);
    expect((await read()).body.logs[0]).to.deep.include({
      message: 'a\ufffdb',
      fields: { deep: ['\ufffd'] },
    });
  });

  it('are refused whole, naming the line at fault', async () => {
    for (const [fault, field] of [
      [{ component: '' }, 'component'],
      [{ level: 'warning' }, 'level'],
      [{ fields: ['x'] }, 'fields'],
      [{ timestamp: '2999-01-01T00:00:00Z' }, 'timestamp'],
    ] as const) {
      const { status, body } = await submit([line(), line(), line(fault)]);
      expect([status, body.details?.[0]?.path]).to.deep.equal([400, `body.logs.2.${field}`]);
    }
    const tooMany = await submit(Array.from({ length: 501 }, () => line()));
    expect([tooMany.status, tooMany.body.details[0].path]).to.deep.equal([400, 'body.logs']);
    expect((await read()).body.total).to.equal(0);
    expect((await submit(Array.from({ length: 500 }, () => line()))).body.received).to.equal(500);
    const page = await read('?limit=1000');
    expect([page.body.limit, page.body.logs.length]).to.deep.equal([1000, 500]);
  });

  it('are bounded by what a packed body is unpacked', async () => {
    const answer = await fetch(`${app.url}/api/v1/agents/${device.deviceId}/logs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${device.token}`,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: new Uint8Array(gzipSync(Buffer.alloc(100_000_000, 0x20))),
    });
    expect(answer.status).to.equal(413);
  });

  it('belong to one device, and one organization', async () => {
    const stranger = await buildTenant(app);
    const theirs = await buildDevice(app, stranger.orgId);
    const other = await buildDevice(app, tenant.orgId);
    for (const { token } of [theirs, other]) {
      expect((await submit([line()], { ...device, token })).status).to.equal(404);
    }
    expect((await submit([line()], { ...device, deviceId: newId() })).status).to.equal(404);
    await submit([line()]);
    expect((await read('', stranger.admin.token)).status).to.equal(404);
    expect((await read('', stranger.technician.token)).status).to.equal(404);
    expect((await read('', tenant.technician.token)).body.total).to.equal(1);
  });

  it('of a device that is gone are answered with 404, and with 401 once its token is forgotten', async () => {
    await submit([line()]);
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx('devices').where({ id: device.deviceId }).delete();
    });
    const { status, body } = await eventually(
      () => submit([line()]),
      (answer) => answer.status !== 404,
    );
    expect([status, body.code]).to.deep.equal([401, 'UNAUTHENTICATED']);
  });
});

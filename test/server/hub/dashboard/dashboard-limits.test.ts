import { expect } from 'chai';
import { DashboardQuotas, MessageBudget } from '../../../../src/hub/dashboard/dashboard-limits.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { call, createTestApp, type TestApp } from '../../../support/test-app.ts';

const TAIL = { name: 'System' };

describe('what a dashboard connection may do', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let token: string;
  let clients: DashboardClient[];

  before(async () => {
    app = await createTestApp({
      dashboardLimits: { connectionsPerPerson: 3, subscriptionsPerPerson: 4, queriesPerPerson: 2 },
    });
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    clients = [];
    ({ token } = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId }));
  });
  afterEach(() => {
    for (const client of clients) client.close();
  });

  const connect = async (as = token) => {
    const client = await connectDashboard(app, as);
    clients.push(client);
    return client;
  };
  const refusal = async (as = token) =>
    connect(as).then(
      () => 'connected',
      (error: { data?: { code: string } }) => error.data?.code,
    );
  const codeOf = async (answer: Promise<{ ok: boolean; error?: { code: string } }>) => {
    const { ok, error } = await answer;
    return ok ? 'ok' : error?.code;
  };
  const refusedMessages = async () => {
    const metrics = await call(`${app.url}/metrics`, 'GET');
    return Number(/^muster_bad_dashboard_messages_total (\d+)/m.exec(metrics.body)?.[1] ?? 0);
  };

  it('counts against the limit of its API key, as requests do', async () => {
    const key = await app.call('POST', '/api-keys', {
      token: tenant.admin.token,
      body: { name: 'Key', scopes: ['devices:read'], rateLimit: 4 },
    });
    const client = await connect(key.body.key);
    expect(await codeOf(client.send('devices:subscribe', {}))).to.equal('ok');
    expect(await codeOf(client.send('jobs:subscribe', {}))).to.equal('ok');
    expect((await app.call('GET', '/devices', { token: key.body.key })).status).to.equal(200);
    for (const event of ['devices:subscribe', 'jobs:subscribe', 'eventlogs:query']) {
      const asked = event === 'eventlogs:query' ? { deviceIds: [newId()], name: 'System' } : {};
      expect(await codeOf(client.send(event, asked)), event).to.equal('RATE_LIMITED');
    }
    expect(await refusal(key.body.key)).to.equal('RATE_LIMITED');
    expect((await app.call('GET', '/devices', { token: key.body.key })).status).to.equal(429);
  });

  it('is limited for each person over all connections, and released with them', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    const [one, two] = [await connect(), await connect()];
    await connect();
    expect(await refusal()).to.equal('RATE_LIMITED');
    expect(await refusal(tenant.technician.token)).to.equal('connected');

    for (const client of [one, two, one, two]) expect((await client.subscribe()).ok).to.equal(true);
    expect(await codeOf(two.send('devices:subscribe', {}))).to.equal('RATE_LIMITED');
    const tail = (client: DashboardClient) =>
      client.send('eventlogs:tail', { ...TAIL, deviceId: device.deviceId });
    for (const client of [one, two]) expect(await codeOf(tail(client))).to.equal('ok');
    expect(await codeOf(tail(two))).to.equal('RATE_LIMITED');

    one.close();
    await eventually(
      () => codeOf(two.send('devices:subscribe', {})),
      (code) => code === 'ok',
    );
    await eventually(
      () => codeOf(tail(two)),
      (code) => code === 'ok',
    );
    expect(await refusal()).to.equal('connected');
    agent.close();
  });

  it('refuses each invalid message with a short answer', async () => {
    const client = await connect();
    const before = await refusedMessages();
    const bad: [string, unknown][] = [
      ['devices:subscribe', 'x'.repeat(900_000)],
      ['devices:subscribe', { ['k'.repeat(500_000)]: 1 }],
      ['devices:subscribe', { orgId: 7 }],
      ['devices:subscribe', []],
      ['devices:unsubscribe', { subscriptionId: 'x'.repeat(100) }],
      ['eventlogs:query', { ...TAIL, deviceIds: Array.from({ length: 20_000 }, newId) }],
      ['eventlogs:query', { ...TAIL, deviceIds: Array.from({ length: 100_000 }, () => 1) }],
      ['eventlogs:query', { ...TAIL }],
      ['eventlogs:tail', { ...TAIL, deviceId: null }],
      ['eventlogs:cancel', 1e308],
      ['jobs:subscribe', { orgId: newId(), deviceId: newId() }],
      ['jobs:unsubscribe', true],
    ];
    for (const [event, payload] of bad) {
      const answer = await client.send(event, payload);
      expect(answer.error.code, event).to.equal('VALIDATION_FAILED');
      expect(JSON.stringify(answer).length, event).to.be.below(700);
    }
    expect((await client.send('__proto__', {})).error.code).to.equal('NOT_FOUND');
    client.socket.emit('devices:subscribe');
    client.socket.emit('devices:subscribe', () => {});
    expect((await client.subscribe()).ok).to.equal(true);
    expect((await refusedMessages()) - before).to.equal(bad.length + 3);
  });

  it('ends after a stream of invalid messages', async () => {
    const client = await connect();
    for (let count = 0; count < 49; count += 1) client.socket.emit('devices:subscribe', 1);
    expect((await client.subscribe()).ok).to.equal(true);
    for (let count = 0; count < 50; count += 1) client.socket.emit('no:such:event', 1);
    await eventually(
      () => client.socket.connected,
      (isConnected) => !isConnected,
    );
  });

  it('has messages refused that come too fast, and ends if they continue', async () => {
    const client = await connect();
    const answers: string[] = [];
    for (let count = 0; count < 110; count += 1) {
      client.socket.emit('eventlogs:cancel', { queryId: 'q' }, (answer: { error?: { code: string } }) =>
        answers.push(answer.error?.code ?? 'ok'),
      );
    }
    await eventually(
      () => answers.length,
      (length) => length === 110,
    );
    expect(new Set(answers)).to.deep.equal(new Set(['ok', 'RATE_LIMITED']));
    for (let count = 0; count < 200; count += 1) client.socket.emit('eventlogs:cancel', { queryId: 'q' });
    await eventually(
      () => client.socket.connected,
      (isConnected) => !isConnected,
    );
  });
});

describe('the limits of dashboards', () => {
  it('allow a burst of messages, and then a fixed rate', () => {
    let now = 0;
    const budget = new MessageBudget(() => now);
    const passed = () => {
      for (let count = 0; ; count += 1) {
        try {
          budget.take();
        } catch {
          return count;
        }
      }
    };
    expect(passed()).to.equal(100);
    now += 1000;
    expect(passed()).to.equal(20);
    now += 3_600_000;
    expect(passed()).to.equal(100);
  });

  it('count a release once, however often it is called', () => {
    const { addresses } = new DashboardQuotas({ connectionsPerAddress: 2 });
    const [first] = [addresses.acquire('a'), addresses.acquire('a')];
    expect(() => addresses.acquire('a')).to.throw('One address may have 2 connections at once.');
    first();
    first();
    addresses.acquire('a');
    expect(() => addresses.acquire('a')).to.throw();
    addresses.acquire('b');
  });
});

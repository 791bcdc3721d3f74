import { expect } from 'chai';
import {
  buildDevice,
  buildOrganization,
  buildSite,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('the services of a device', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId);
    agent = await connectDevice(app, device.token);
  });
  afterEach(() => agent.close());

  const SPOOLER = {
    name: 'Spooler',
    displayName: 'Print Spooler',
    state: 'running',
    startMode: 'automatic',
  };
  const report = async (message: object, by = agent) => {
    const answer = by.send('services:report', { manager: 'windows', isComplete: true, ...message });
    // The message has to arrive before what waits is written.
    await by.heartbeat();
    await app.settle();
    return answer;
  };
  const read = async (query = '', { id = device.deviceId, token = tenant.admin.token } = {}) =>
    app.call('GET', `/devices/${id}/services${query}`, { token });
  const names = async (query = '') => {
    const { body } = await read(query);
    return body.data.map(({ name }: { name: string }) => name);
  };
  const owner = <Row extends object>(sql: string, values?: unknown[]) =>
    asOwner<Row & Record<string, unknown>>(app.database.ownerUrl, sql, values);

  it('are listed as they were reported, by name, with who manages them', async () => {
    const before = await read();
    expect(before.body).to.deep.equal({
      data: [],
      pagination: { page: 1, limit: 50, total: 0 },
      manager: null,
      reportedAt: null,
      unlisted: 0,
    });
    const from = Date.now();
    expect(await report({ services: [SPOOLER, { name: 'BITS', state: 'stopped' }] })).to.deep.equal({
      ok: true,
    });
    const { status, body } = await read();
    expect(status).to.equal(200);
    expect(body).to.deep.include({ manager: 'windows', unlisted: 0 });
    expect(Date.parse(body.reportedAt)).to.be.within(from - 1000, Date.now() + 1000);
    const [bits, spooler] = body.data;
    expect(bits).to.deep.include({ name: 'BITS', displayName: null, state: 'stopped', startMode: null });
    expect(spooler).to.deep.include(SPOOLER);
    expect(Date.parse(spooler.since)).to.be.within(from - 1000, Date.now() + 1000);
  });

  it('are found by a part of either name, by their state and by page', async () => {
    await report({
      services: [
        SPOOLER,
        { name: 'W32Time', displayName: 'Windows Time', state: 'stopped' },
        { name: 'x', state: 'failed' },
      ],
    });
    expect(await names('?search=PRINT')).to.deep.equal(['Spooler']);
    expect(await names('?search=w32')).to.deep.equal(['W32Time']);
    expect(await names('?search=%25')).to.deep.equal([]);
    expect(await names('?state=stopped,failed')).to.deep.equal(['W32Time', 'x']);
    expect(await names('?limit=1&page=2')).to.deep.equal(['W32Time']);
    expect((await read('?state=asleep')).status).to.equal(400);
  });

  it('keep the time at which they entered their state, whether reported or seen first by the server', async () => {
    const since = new Date(Date.now() - 3_600_000).toISOString();
    await report({ services: [SPOOLER, { name: 'BITS', state: 'stopped', since }] });
    const [bits, spooler] = (await read()).body.data;
    expect(bits.since).to.equal(since);
    await report({
      services: [
        { ...SPOOLER, displayName: 'Spooler of prints' },
        { name: 'BITS', state: 'stopped' },
      ],
    });
    const again = (await read()).body.data;
    expect(again.map(({ since: at }: { since: string }) => at)).to.deep.equal([since, spooler.since]);
    expect(again[1].displayName).to.equal('Spooler of prints');
    // It was stopped and started while nobody looked.
    const restarted = new Date(Date.now() - 60_000).toISOString();
    await report({ isComplete: false, services: [{ ...SPOOLER, since: restarted }] });
    expect((await read()).body.data[1].since).to.equal(restarted);
  });

  it('have no time in the future, whatever the clock of the machine says', async () => {
    const since = new Date(Date.now() + 3_600_000).toISOString();
    await report({ services: [{ ...SPOOLER, since }] });
    expect(Date.parse((await read()).body.data[0].since)).to.be.below(Date.now() + 1000);
  });

  it('change one by one, and a complete report forgets the others', async () => {
    await report({
      services: [SPOOLER, { name: 'BITS', state: 'stopped' }, { name: 'x', state: 'running' }],
    });
    await report({ isComplete: false, services: [{ ...SPOOLER, state: 'stopped' }], removed: ['x'] });
    expect((await read()).body.data.map(({ name, state }: typeof SPOOLER) => [name, state])).to.deep.equal([
      ['BITS', 'stopped'],
      ['Spooler', 'stopped'],
    ]);
    await report({ services: [{ name: 'BITS', state: 'running' }] });
    expect(await names()).to.deep.equal(['BITS']);
  });

  it('are not written again if they are the same', async () => {
    const services = [SPOOLER, { name: 'BITS', state: 'stopped' }];
    const rows = () =>
      owner(`select name, xmin::text, ctid::text from device_services where device_id = $1 order by name`, [
        device.deviceId,
      ]);
    await report({ services });
    const before = await rows();
    await report({ services });
    await report({ isComplete: false, services });
    expect(await rows()).to.deep.equal(before);
  });

  it('are those of a machine without a service manager: none', async () => {
    await report({ manager: 'none', services: [] });
    expect((await read()).body).to.deep.include({ manager: 'none', data: [] });
  });

  it('are at most a thousand, however many an agent reports one after the other', async () => {
    const some = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => ({
        name: `s${String(from + index).padStart(5, '0')}`,
        state: 'running',
      }));
    const total = async () => (await read('?limit=1')).body.pagination.total;
    await report({ services: some(0, 900) });
    await report({ isComplete: false, services: some(900, 1000) });
    expect(await total()).to.equal(1000);
    // Known ones still change, and those that go make room.
    const changed = { name: 's00000', state: 'stopped' };
    await report({
      isComplete: false,
      services: [changed, ...some(5000, 10)],
      removed: ['s00001', 's00002'],
    });
    expect(await total()).to.equal(1000);
    expect(await names('?search=s0500')).to.deep.equal(['s05000', 's05001']);
    expect(await names('?state=stopped')).to.deep.equal(['s00000']);
  });

  it('say that a machine has more than are kept', async () => {
    await report({ services: [SPOOLER], total: 1200 });
    expect((await read()).body.unlisted).to.equal(1199);
  });

  it('lose only the entries that are not valid', async () => {
    const answer = await report({
      services: [
        SPOOLER,
        null,
        7,
        { name: '', state: 'running' },
        { name: 'asleep', state: 'asleep' },
        { name: 'no state' },
        {
          name: 'odd\u0000\u202Ename "quoted" \\ back',
          displayName: 7,
          state: 'running',
          startMode: 'now and then',
          since: 'later',
        },
        { name: 'n'.repeat(5000), state: 'stopped' },
      ],
      removed: ['', null, 'never there'],
    });
    expect(answer).to.deep.equal({ ok: true });
    const { data } = (await read()).body;
    expect(data).to.have.length(3);
    expect(data.map(({ name }: { name: string }) => name.slice(0, 8)).toSorted()).to.deep.equal(
      ['Spooler', 'nnnnnnnn', 'odd\uFFFDname'].toSorted(),
    );
    expect(data.every(({ name }: { name: string }) => name.length <= 200)).to.equal(true);
  });

  it('are refused if there are ten thousand, and what was known stays', async () => {
    await report({ services: [SPOOLER] });
    const services = Array.from({ length: 10_000 }, (_, n) => ({ name: `s${n}`, state: 'running' }));
    expect(await report({ services })).to.deep.include({ ok: false });
    expect(await names()).to.deep.equal(['Spooler']);
    expect(await report({ services: services.slice(0, 1000) })).to.deep.equal({ ok: true });
    expect((await read()).body.pagination.total).to.equal(1000);
  });

  it('of another tenant are neither seen nor changed', async () => {
    const other = await buildTenant(app);
    const theirs = await buildDevice(app, other.orgId);
    const their = await connectDevice(app, theirs.token);
    await report({ services: [SPOOLER] });
    await report({ services: [], deviceId: device.deviceId, orgId: tenant.orgId }, their);
    their.close();
    expect(await names()).to.deep.equal(['Spooler']);
    expect((await read('', { token: other.admin.token })).status).to.equal(404);
    expect((await read('', { id: theirs.deviceId, token: other.admin.token })).body.data).to.deep.equal([]);
  });

  it('follow a device that moves to another organization', async () => {
    await report({ services: [SPOOLER] });
    const orgId = await buildOrganization(app, tenant.partnerId);
    const siteId = await buildSite(app, orgId);
    const moved = await app.call('POST', `/devices/${device.deviceId}/move`, {
      token: tenant.admin.token,
      body: { orgId, siteId },
    });
    expect(moved.status, JSON.stringify(moved.body)).to.equal(200);
    expect(await names()).to.deep.equal(['Spooler']);
    expect(
      await owner(`select org_id from device_services where device_id = $1`, [device.deviceId]),
    ).to.deep.equal([{ org_id: orgId }]);
  });
});

import { expect } from 'chai';
import { packSamples, sumUpDays } from '../../../../src/features/metrics/metric.job.ts';
import { buildDevice, buildOrganization, buildSite, buildTenant } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

describe('filters over averages', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let busy: { deviceId: string };
  let idle: { deviceId: string };
  let agents: FakeDevice[];

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    const devices = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)] as const;
    [busy, idle] = devices;
    agents = [await connectDevice(app, devices[0].token), await connectDevice(app, devices[1].token)];
  });
  afterEach(() => agents.forEach((agent) => agent.close()));

  const owner = (sql: string) => asOwner(app.database.ownerUrl, sql);
  /** A whole hour has passed in which the devices used this much of their processors, and it is packed. */
  const pass = async (cpuPercents: readonly number[]) => {
    const hour = Math.floor(Date.now() / HOUR) * HOUR - HOUR;
    const answers: Promise<unknown>[] = [];
    for (const [index, cpuPercent] of cpuPercents.entries()) {
      const samples = Array.from({ length: 60 }, (_, minute) => ({
        at: new Date(hour + minute * MINUTE).toISOString(),
        cpuPercent,
      }));
      const agent = agents[index];
      if (agent === undefined) throw new Error('There is no agent for these figures.');
      answers.push(agent.send('metrics:samples', { samples }));
      // The message has to arrive before what waits is written.
      await agent.heartbeat();
    }
    await app.settle();
    await Promise.all(answers);
    await owner(`select add_partitions('metric_samples', now() - interval '3 hours', now())`);
    await owner(`update metric_samples set arrived_at = arrived_at - interval '2 hours'`);
    await packSamples(app.server.database.jobPool, new Date(Math.floor(Date.now() / HOUR) * HOUR));
  };
  const conditions = (field: string, value: number) => ({
    operator: 'AND',
    conditions: [{ field, operator: 'greaterThan', value }],
  });
  const found = async (field: string, value: number, { token } = tenant.admin) => {
    const { status, body } = await app.call('POST', '/filters/preview', {
      token,
      body: { conditions: conditions(field, value) },
    });
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.data.devices.map(({ id }: { id: string }) => id);
  };

  it('find devices by the average of the last hour and day', async () => {
    await pass([80, 5]);
    expect(await found('metrics.avg.cpuPercent.1h', 50)).to.deep.equal([busy.deviceId]);
    expect(await found('metrics.avg.cpuPercent.1d', 79.9)).to.deep.equal([busy.deviceId]);
    expect(await found('metrics.avg.cpuPercent.1d', 80)).to.deep.equal([]);
    expect(await found('metrics.avg.cpuPercent.1h', 1)).to.have.members([busy.deviceId, idle.deviceId]);
    expect(await found('metrics.avg.ramPercent.1h', 0)).to.deep.equal([]);
    const other = await buildTenant(app);
    expect(await found('metrics.avg.cpuPercent.1h', 0, other.admin)).to.deep.equal([]);
  });

  it('are listed for many devices at once, of each of the last 24 hours', async () => {
    await pass([80, 5]);
    const other = await buildTenant(app);
    const foreign = await buildDevice(app, other.orgId);
    const read = (query: string, { token } = tenant.admin) =>
      app.call('GET', `/metrics/hours?${query}`, { token });
    const ids = [busy, foreign, idle].map(({ deviceId }) => deviceId).join(',');
    const { status, body } = await read(`deviceIds=${ids}&metric=cpuPercent`);
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body.data.map(({ deviceId }: { deviceId: string }) => deviceId)).to.have.members([
      busy.deviceId,
      idle.deviceId,
    ]);
    const { until, averages } = body.data.find(
      ({ deviceId }: { deviceId: string }) => deviceId === busy.deviceId,
    );
    expect(Date.parse(until)).to.equal(Math.floor(Date.now() / HOUR) * HOUR);
    expect(averages).to.deep.equal([...Array.from({ length: 23 }, () => null), 80]);
    expect((await read(`deviceIds=${ids}&metric=cpuPercent`, other.admin)).body.data).to.deep.equal([]);
    for (const query of [
      `deviceIds=${ids}`,
      'metric=load',
      'deviceIds=&metric=load',
      'deviceIds=x&metric=load',
      `deviceIds=${Array.from({ length: 101 }, () => busy.deviceId).join(',')}&metric=load`,
      `deviceIds=${ids}&metric=uptimeSeconds`,
    ]) {
      expect((await read(query)).status, query).to.equal(400);
    }
  });

  it('find devices by the average of seven days, as soon as days are over', async () => {
    await pass([80, 5]);
    expect(await found('metrics.avg.cpuPercent.7d', 0)).to.deep.equal([]);
    const ids = `device_id in ('${busy.deviceId}', '${idle.deviceId}')`;
    await owner(`select add_partitions('metric_minutes', now() - interval '4 days', now())`);
    await owner(`update metric_minutes set begins_at = begins_at - interval '3 days' where ${ids}`);
    await owner(`update metric_progress set summed_up_until = '-infinity'`);
    await sumUpDays(app.server.database.jobPool, new Date(Math.floor(Date.now() / DAY) * DAY - DAY));
    // Other files share this server.
    await owner(`update metric_progress set summed_up_until = '-infinity'`);
    expect(await found('metrics.avg.cpuPercent.7d', 50)).to.deep.equal([busy.deviceId]);
  });

  it('follow a device to another organization', async () => {
    await pass([80, 5]);
    const orgId = await buildOrganization(app, tenant.partnerId);
    const { status } = await app.call('POST', `/devices/${busy.deviceId}/move`, {
      token: tenant.admin.token,
      body: { orgId, siteId: await buildSite(app, orgId) },
    });
    expect(status).to.equal(200);
    expect(await found('metrics.avg.cpuPercent.1h', 50)).to.deep.equal([busy.deviceId]);
  });

  it('are refused for what has no averages', async () => {
    for (const field of [
      'metrics.avg.cpuPercent',
      'metrics.avg.cpuPercent.2h',
      'metrics.avg.uptimeSeconds.1h',
    ]) {
      const { status, body } = await app.call('POST', '/filters/preview', {
        token: tenant.admin.token,
        body: { conditions: conditions(field, 1) },
      });
      expect(status, field).to.equal(400);
      expect(body.error, field).to.contain(`Unknown field "${field}"`);
    }
  });
});

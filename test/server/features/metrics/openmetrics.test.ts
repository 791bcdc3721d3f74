import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildTenant,
  type EnrolledDevice,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('figures as OpenMetrics, of a server', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;
  let agent: FakeDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId, { hostname: 'FRONT-1' });
    agent = await connectDevice(app, device.token);
    const answer = agent.send('metrics:samples', {
      samples: [
        { at: new Date(Date.now() - 60_000).toISOString(), cpuPercent: 90 },
        {
          at: new Date().toISOString(),
          cpuPercent: 12.5,
          volumes: [{ volume: 'C:\\', usedBytes: 3 * 2 ** 30, totalBytes: 4 * 2 ** 30 }],
        },
      ],
    });
    await agent.heartbeat();
    await app.settle();
    expect(await answer).to.deep.include({ ok: true });
  });
  after(async () => {
    agent.close();
    await app.close();
  });

  const scrape = async (query = '', token = tenant.admin.token) => {
    const response = await fetch(`${app.url}/api/v1/metrics/openmetrics${query}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      text: await response.text(),
    };
  };

  it('are the newest of each device, in the type that Prometheus asks for, also for an API key', async () => {
    const key = await app.call('POST', '/api-keys', {
      token: tenant.admin.token,
      body: { name: 'Prometheus', permissions: ['devices:read'] },
    });
    const { status, type, text } = await scrape('', key.body.key ?? key.body.data?.key);
    expect([status, type]).to.deep.equal([200, 'application/openmetrics-text; version=1.0.0; charset=utf-8']);
    const labels = `{device_id="${device.deviceId}",device="FRONT-1",organization="`;
    const line = (name: string) => text.split('\n').find((each) => each.startsWith(`${name}${labels}`));
    expect(line('muster_device_connected')).to.match(/ 1$/);
    expect(line('muster_device_cpu_percent')).to.match(/ 12\.5$/);
    expect(line('muster_device_volume_used_bytes')).to.match(/,volume="C:\\\\"\} 3221225472$/);
    expect(text.endsWith('# EOF\n')).to.equal(true);
  });

  it('have one entry in the audit trail for each key and selection, not one for each scrape', async () => {
    const { admin, orgId } = await buildTenant(app);
    for (const query of ['', '', `?orgId=${orgId}`, '', `?orgId=${orgId}`]) await scrape(query, admin.token);
    const details = async () => {
      const { body } = await app.call('GET', '/audit-logs/search?q=openmetrics', { token: admin.token });
      return (body.data as { details: object }[]).map((entry) => entry.details);
    };
    const found = await eventually(details, (entries) => entries.length >= 2);
    expect(found).to.have.deep.members([{ what: 'openmetrics' }, { what: 'openmetrics', orgId }]);
  });

  it('are those of the caller’s devices, or of one organization', async () => {
    const other = await buildOrganization(app, tenant.partnerId);
    const stranger = await buildTenant(app);
    await buildDevice(app, other, { hostname: 'SECOND' });
    const names = async (query?: string, token?: string) =>
      [...(await scrape(query, token)).text.matchAll(/muster_device_connected\{.*?,device="(.*?)"/g)].map(
        ([, name]) => name,
      );
    expect(await names()).to.have.members(['FRONT-1', 'SECOND']);
    expect(await names(`?orgId=${other}`)).to.deep.equal(['SECOND']);
    expect(await names('', tenant.technician.token)).to.deep.equal(['FRONT-1']);
    expect(await names('', stranger.admin.token)).to.deep.equal([]);
    expect((await scrape(`?orgId=${other}`, stranger.admin.token)).status).to.equal(403);
    expect((await scrape('', 'nonsense')).status).to.equal(401);
  });
});

import { expect } from 'chai';
import { FRAME_MS } from '../../../../src/hub/subscriptions/subscription.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DevicesDelta } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { FeedClient } from '../../../support/feed-client.ts';
import { call, createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('a dashboard that does not read', () => {
  const PATIENCE_MS = 4000;
  /** So much a frame that the network soon takes no more. */
  const BULK = 'x'.repeat(1_000_000);
  let app: TestApp;
  let clients: DashboardClient[];
  let deviceId: string;
  let count = 0;

  before(async () => {
    app = await createTestApp({ dashboardPatienceMs: PATIENCE_MS });
  });
  after(async () => app.close());
  beforeEach(async () => {
    const tenant = await buildTenant(app);
    ({ deviceId } = await buildDevice(app, tenant.orgId));
    clients = [
      await connectDashboard(app, tenant.admin.token),
      await connectDashboard(app, tenant.admin.token),
    ];
    for (const client of clients) await client.subscribe();
  });
  afterEach(() => {
    for (const client of clients) client.close();
  });

  /** What lies below the client: its TCP connection. */
  const tcpOf = (client: DashboardClient) =>
    (client.socket.io.engine.transport as unknown as { ws: { _socket: { pause(): void; resume(): void } } })
      .ws._socket;
  async function change(frames: number, bulk = BULK): Promise<string> {
    let last = '';
    for (let at = 0; at < frames; at++) {
      last = `version ${++count}`;
      app.server.hub.deviceChanged(deviceId, { agentVersion: `${last} ${bulk}` });
      await new Promise((resolve) => setTimeout(resolve, FRAME_MS + 10));
    }
    return last;
  }
  const versionAt = ({ deltas }: DashboardClient) => deltas.at(-1)?.changed[0]?.agentVersion?.split(' x')[0];
  const cutOffs = async () => {
    const { body } = await call(`${app.url}/metrics`, 'GET');
    return Number(/^muster_dashboards_cut_off_total (\d+)$/m.exec(String(body))?.[1]);
  };

  it('is sent fewer frames, and finally the current state', async () => {
    const [reader, slow] = clients as [DashboardClient, DashboardClient];
    tcpOf(slow).pause();
    const last = await change(12);
    tcpOf(slow).resume();
    await eventually(
      () => clients.map(versionAt),
      (versions) => versions.every((version) => version === last),
    );
    expect(slow.deltas.length).to.be.lessThan(reader.deltas.length);
    for (const { deltas } of clients) {
      expect(deltas.map(({ seq }) => seq)).to.deep.equal(deltas.map((_delta, at) => at + 1));
    }
    expect(await cutOffs()).to.equal(0);
  });

  it('is shown the current matches of its conditions when it continues after falling behind', async () => {
    const [, slow] = clients as [DashboardClient, DashboardClient];
    const ids = Array.from({ length: 1200 }, () => newId());
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, hardware, network, enrolled_at)
      select u.id, d.org_id, d.site_id, u.id, d.os_type, d.os_version, d.architecture, d.agent_version, d.hardware, d.network, d.enrolled_at
      from unnest($1::uuid[]) as u (id), devices d where d.id = $2`,
      [ids, deviceId],
    );
    const measure = (some: readonly string[], cpuPercent: number) => {
      for (const id of some) {
        app.server.hub.deviceChanged(id, { metrics: { cpuPercent, ramPercent: 1, diskPercent: 1 } });
      }
    };
    const client = new FeedClient();
    let subscriptionId = '';
    let shownAgain = 0;
    slow.socket.on('devices:delta', (delta: DevicesDelta) => {
      if (delta.subscriptionId !== subscriptionId) return;
      shownAgain += delta.entered.filter(({ id }) => client.devices.has(id)).length;
      client.take(delta);
    });
    const first = await slow.subscribe({
      conditions: {
        operator: 'AND',
        conditions: [{ field: 'metrics.cpuPercent', operator: 'greaterThan', value: 50 }],
      },
    });
    subscriptionId = first.subscriptionId;
    client.start(first.devices, first);
    measure(ids, 60);
    await eventually(
      () => client.devices.size,
      (size) => size === ids.length,
    );
    expect(shownAgain).to.equal(0);
    tcpOf(slow).pause();
    // More than the buffers of the network hold, however large the system has let them grow.
    await change(8, BULK.repeat(4));
    measure(ids, 70);
    await new Promise((resolve) => setTimeout(resolve, 2 * FRAME_MS));
    // From here on nothing is kept for it: some leave, and one is another one.
    const [one = '', ...others] = ids;
    measure(others.slice(600), 10);
    measure([one], 99);
    await new Promise((resolve) => setTimeout(resolve, 2 * FRAME_MS));
    tcpOf(slow).resume();
    await eventually(
      () => client.devices.size,
      (size) => size === 601,
    );
    expect(shownAgain).to.be.greaterThan(0);
    expect([...client.devices.keys()].sort()).to.deep.equal(ids.slice(0, 601).sort());
    await eventually(
      () => client.devices.get(one)?.metrics?.cpuPercent,
      (cpu) => cpu === 99,
    );
    expect(client.faults).to.deep.equal([]);
    expect(client.counts?.total).to.equal(601);
  });

  it('is disconnected after a while and counted, without effect on others', async () => {
    const [reader, stuck] = clients as [DashboardClient, DashboardClient];
    tcpOf(stuck).pause();
    const changing = change(24);
    await eventually(cutOffs, (number) => number === 1, 15_000);
    const last = await changing;
    await eventually(
      () => versionAt(reader),
      (version) => version === last,
    );
    tcpOf(stuck).resume();
    await eventually(
      () => stuck.socket.connected,
      (connected) => !connected,
    );
    expect(await cutOffs()).to.equal(1);
  });
});

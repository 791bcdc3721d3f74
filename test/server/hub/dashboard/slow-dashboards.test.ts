import { expect } from 'chai';
import { FRAME_MS, Subscription } from '../../../../src/hub/subscriptions/subscription.ts';
import { DeviceChange } from '../../../../src/hub/subscriptions/device-change.ts';
import { onePage } from '../../../../src/hub/subscriptions/device-pages.ts';
import type { FlowControl } from '../../../../src/hub/sockets/flow-controlled-client.ts';
import { newId } from '../../../../src/platform/ids.ts';
import type { DevicesDelta, DeviceSummary } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { CALLER, FeedClient, summary } from '../../../support/feed-client.ts';
import { call, createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

/** A connection that takes what it is sent when the test says so. */
class TestFlow implements FlowControl {
  isReady = true;
  stalledMs = 0;
  cutOffs = 0;
  #waiting: (() => void)[] = [];

  whenReady(go: () => void): void {
    this.#waiting.push(go);
  }
  cutOff(): void {
    this.cutOffs += 1;
  }
  /** Takes what is there, and one message of each that waits. */
  take(): void {
    this.isReady = true;
    for (const go of this.#waiting.splice(0)) go();
  }
}

describe('a subscriber that reads slowly', () => {
  let flow: TestFlow;
  let client: FeedClient;
  let subscription: Subscription;
  let stored: DeviceSummary[] | Error;

  afterEach(() => subscription.stop());

  const open = (...devices: DeviceSummary[]) => {
    flow = new TestFlow();
    client = new FeedClient();
    stored = devices;
    subscription = new Subscription({
      caller: CALLER,
      filter: {},
      flow,
      pages: () =>
        onePage(async () => {
          if (stored instanceof Error) throw stored;
          return stored;
        }),
      send(delta) {
        expect(flow.isReady, 'sent to somebody who is not ready').to.equal(true);
        flow.isReady = false;
        client.take(delta);
      },
    });
    client.start(devices, subscription.start(devices));
  };
  const seen = (id: string, lastSeenAt: string) => new DeviceChange(id, { lastSeenAt });
  const many = (count: number) => Array.from({ length: count }, (_value, at) => summary(`d${at}`));
  const changeAll = (count: number, lastSeenAt: string) =>
    subscription.changedTogether(Array.from({ length: count }, (_value, at) => seen(`d${at}`, lastSeenAt)));
  const takeAll = async () => {
    flow.take();
    await new Promise((resolve) => setTimeout(resolve, FRAME_MS + 50));
    for (let frame = 0; frame < 100; frame++) {
      flow.take();
      await new Promise((resolve) => setImmediate(resolve));
    }
  };

  it('gets in one frame what changed while it did not read, the latest state of each device', async () => {
    open(summary('d0'), summary('d1'));
    for (let at = 1; at <= 50; at++) changeAll(2, `at ${at}`);
    expect(client.frames).to.equal(1);
    await takeAll();
    expect(client.frames).to.equal(2);
    expect([...client.devices.values()].map(({ lastSeenAt }) => lastSeenAt)).to.deep.equal([
      'at 50',
      'at 50',
    ]);
    expect(client.faults).to.deep.equal([]);
  });

  it('gets many devices in several frames, each after it has taken the previous one', async () => {
    open(...many(250));
    changeAll(250, 'later');
    expect(client.frames).to.equal(1);
    await takeAll();
    expect(client.frames).to.equal(3);
    expect([...client.devices.values()].every(({ lastSeenAt }) => lastSeenAt === 'later')).to.equal(true);
    expect(client.faults).to.deep.equal([]);
  });

  it('is shown everything again when it was too far behind', async () => {
    open(...many(1500));
    changeAll(1500, 'first');
    flow.stalledMs = 10_000;
    changeAll(1500, 'second');
    // From here on nothing is kept for it.
    subscription.left('d0');
    subscription.entered(summary('new'));
    stored = [...many(1500).slice(1), summary('new')].map((device) => ({ ...device, lastSeenAt: 'third' }));
    flow.take();
    // While it is read, changes are noted again.
    subscription.changed(seen('d1', 'fourth'));
    subscription.left('d2');
    flow.stalledMs = 0;
    await takeAll();
    expect(client.faults).to.deep.equal([]);
    expect([client.devices.size, client.counts?.total]).to.deep.equal([1499, 1499]);
    expect(client.devices.get('d1')?.lastSeenAt).to.equal('fourth');
    expect(client.devices.get('d1499')?.lastSeenAt).to.equal('third');
    expect(client.devices.has('d0') || client.devices.has('d2')).to.equal(false);
    expect(client.devices.has('new')).to.equal(true);
    changeAll(1500, 'fifth');
    await takeAll();
    expect(client.devices.get('d1499')?.lastSeenAt).to.equal('fifth');
  });

  it('receives a long list completely although it reads slowly and everything keeps changing', async () => {
    flow = new TestFlow();
    flow.stalledMs = 10_000;
    client = new FeedClient();
    const all = many(3000);
    let passes = 0;
    subscription = new Subscription({
      caller: CALLER,
      filter: {},
      flow,
      pages() {
        let at = 0;
        passes += 1;
        return async () => {
          const devices = all.slice(at, (at += 1000)).map((device) => ({ ...device, lastSeenAt: 'last' }));
          return { devices, isLast: at >= all.length };
        };
      },
      send(delta) {
        flow.isReady = false;
        client.take(delta);
      },
    });
    const first = await subscription.begin();
    client.start(first.devices, first);
    expect(first.complete).to.equal(false);
    let frames = 0;
    for (; client.devices.size < all.length && frames < 100; frames += 1) {
      changeAll(3000, `at ${frames}`);
      flow.take();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(frames, 'frames until all are shown').to.be.within(20, 60);
    await takeAll();
    expect([...client.devices.values()].filter(({ lastSeenAt }) => lastSeenAt !== 'last')).to.deep.equal([]);
    expect(client.faults).to.deep.equal([]);
    expect(passes, 'what was not kept is read again, once').to.equal(2);
  });

  it('is disconnected when the list cannot be read again', async () => {
    open(...many(1500));
    changeAll(1500, 'first');
    flow.stalledMs = 10_000;
    changeAll(1500, 'second');
    stored = new Error('the database is away');
    await takeAll();
    expect(flow.cutOffs).to.equal(1);
  });
});

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

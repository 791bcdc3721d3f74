import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { createDeviceStore } from '../../../../src/features/devices/index.ts';
import type { DeviceStore, PresenceRecord, ReportRecord } from '../../../../src/hub/ports.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const METRICS = { cpuPercent: 10, ramPercent: 20, diskPercent: 30 };
const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();

describe('the guards of stored presence', () => {
  let app: TestApp;
  let orgId: string;
  let store: DeviceStore;
  let node: string;
  let device: string;
  let other: string;
  let turned: string[];
  before(async () => {
    app = await sharedTestApp();
    ({ orgId } = await buildTenant(app));
  });
  after(async () => app.close());
  beforeEach(async () => {
    [device, other] = [(await buildDevice(app, orgId)).deviceId, (await buildDevice(app, orgId)).deviceId];
    node = `node-${newId()}`;
    turned = [];
    store = createDeviceStore({
      db: app.server.database.hubPool,
      nodeId: node,
      audit: createAuditTrail({ wake() {} }),
      log: quietLog,
      onPresence: (ids) => turned.push(...ids),
    });
  });

  const connection = (epoch: number, changes: Partial<PresenceRecord> = {}): PresenceRecord => ({
    deviceId: device,
    epoch,
    presence: { state: 'connected', since: at(-60), reason: 'connected' },
    lastSeenAt: at(-10),
    lastIp: '192.0.2.1',
    metrics: METRICS,
    uptimeSeconds: 100,
    ...changes,
  });
  const GONE = { state: 'disconnected', since: at(-5), reason: 'socket_closed' } as const;
  const NOTHING_NEW = { lastIp: null, metrics: null, uptimeSeconds: null };
  const report = (changes: Partial<ReportRecord> = {}): ReportRecord => ({
    deviceId: device,
    until: at(120),
    lastSeenAt: at(-10),
    lastIp: '192.0.2.1',
    metrics: METRICS,
    uptimeSeconds: 100,
    ...changes,
  });
  const stored = async (id = device) => {
    const [row] = await asOwner<Record<string, unknown>>(
      app.database.ownerUrl,
      `select epoch::int, node_id, state, since, reason, last_seen_at, last_ip, cpu_percent, ram_percent, disk_percent,
        metrics_at, uptime_seconds::int, reports_until
      from device_presence where device_id = $1`,
      [id],
    );
    return row ?? {};
  };
  const time = (text: string | null) => new Date(text ?? '');

  it('show which connected devices are stored under a greater epoch, or as disconnected', async () => {
    await store.recordPresence([connection(7), { ...connection(7), deviceId: other }]);
    const claims = [
      { deviceId: device, epoch: 6 },
      { deviceId: other, epoch: 7 },
      { deviceId: newId(), epoch: 1 },
    ];
    expect(await store.misrecorded(claims)).to.deep.equal([{ deviceId: device, difference: 'outdated' }]);
    await store.recordPresence([
      connection(7, { presence: GONE }),
      connection(7, { deviceId: other, presence: GONE }),
    ]);
    expect(await store.misrecorded(claims)).to.have.deep.members([
      { deviceId: device, difference: 'outdated' },
      { deviceId: other, difference: 'disconnected' },
    ]);
    expect(await store.misrecorded([])).to.deep.equal([]);
  });

  it('take a connection over whole, also under the same epoch, and none under an older one', async () => {
    await store.recordPresence([connection(5)]);
    const first = await stored();
    const late = connection(4, { presence: GONE, lastSeenAt: at(0), lastIp: '192.0.2.9' });
    await store.recordPresence([late]);
    expect(await stored()).to.deep.equal(first);
    for (const epoch of [5, 6]) {
      const next = connection(epoch, {
        presence: {
          state: epoch === 5 ? 'disconnected' : 'connected',
          since: at(epoch),
          reason: epoch === 5 ? 'heartbeat_missed' : 'connected',
        },
        lastSeenAt: at(epoch),
        lastIp: `192.0.2.${epoch}`,
        metrics: { cpuPercent: 1, ramPercent: 2, diskPercent: 3 },
        uptimeSeconds: epoch,
      });
      await store.recordPresence([next]);
      expect(await stored()).to.deep.include({
        epoch,
        node_id: node,
        state: next.presence.state,
        since: time(next.presence.since),
        reason: next.presence.reason,
        last_seen_at: time(next.lastSeenAt),
        last_ip: next.lastIp,
        cpu_percent: 1,
        ram_percent: 2,
        disk_percent: 3,
        metrics_at: time(next.lastSeenAt),
        uptime_seconds: epoch,
      });
    }
  });

  for (const [what, write] of [
    ['a connection', (changes: object) => store.recordPresence([connection(2, changes)])],
    ['a report', (changes: object) => store.recordReports([report(changes)])],
  ] as const) {
    it(`keep what ${what} does not say, and no time goes back`, async () => {
      await store.recordPresence([connection(1)]);
      const before = await stored();
      await write({ lastSeenAt: at(-1000), ...NOTHING_NEW });
      const { last_seen_at, last_ip, cpu_percent, ram_percent, disk_percent, metrics_at, uptime_seconds } =
        await stored();
      expect(before).to.deep.include({ last_seen_at, last_ip, metrics_at, uptime_seconds });
      expect(before).to.deep.include({ cpu_percent, ram_percent, disk_percent });
    });

    it(`take over what ${what} says`, async () => {
      await store.recordPresence([connection(1)]);
      const lastSeenAt = at(5);
      await write({
        lastSeenAt,
        lastIp: '192.0.2.7',
        metrics: { cpuPercent: 1, ramPercent: 2, diskPercent: 3 },
        uptimeSeconds: 7,
      });
      expect(await stored()).to.deep.include({
        last_seen_at: time(lastSeenAt),
        last_ip: '192.0.2.7',
        cpu_percent: 1,
        ram_percent: 2,
        disk_percent: 3,
        metrics_at: time(lastSeenAt),
        uptime_seconds: 7,
      });
    });
  }

  it('leave the connection as it is when a report comes, whose end never goes back', async () => {
    await store.recordPresence([connection(3)]);
    const { state, since, reason, epoch, node_id } = await stored();
    const until = at(600);
    await store.recordReports([report({ until })]);
    await store.recordReports([report({ until: at(60) })]);
    expect(await stored()).to.deep.include({
      state,
      since,
      reason,
      epoch,
      node_id,
      reports_until: time(until),
    });
  });

  it('forget reports when the device connects, and not when it disconnects', async () => {
    const until = at(600);
    await store.recordReports([report({ until })]);
    await store.recordPresence([connection(1, { presence: GONE })]);
    expect((await stored())['reports_until']).to.deep.equal(time(until));
    await store.recordPresence([connection(2)]);
    expect((await stored())['reports_until']).to.equal(null);
  });

  it('tell of the devices that have turned, and of no others', async () => {
    await store.recordPresence([connection(1), connection(1, { deviceId: other })]);
    expect(turned.toSorted()).to.deep.equal([device, other].toSorted());
    turned = [];
    await store.recordPresence([connection(1), connection(2, { deviceId: other, presence: GONE })]);
    expect(turned).to.deep.equal([other]);
    turned = [];
    await store.recordReports([report(), report({ deviceId: other })]);
    await store.recordReports([report(), report({ deviceId: other })]);
    expect(turned.toSorted()).to.deep.equal([device, other].toSorted());
  });

  it('find the devices that report, and of given ones those that are connected', async () => {
    const over = (await buildDevice(app, orgId)).deviceId;
    const until = at(600);
    await store.recordReports([report({ until }), report({ deviceId: over, until: at(-1) })]);
    await store.recordPresence([connection(1, { deviceId: other })]);
    const mine = (await store.reporting(undefined)).filter((one) =>
      [device, other, over].includes(one.deviceId),
    );
    expect(mine).to.deep.equal([{ deviceId: device, until: Date.parse(until) }]);
    expect(await store.reporting([device, other, over])).to.have.deep.members([
      { deviceId: device, until: Date.parse(until) },
      { deviceId: other, until: null },
    ]);
    expect(await store.reporting([over])).to.deep.equal([]);
    await store.recordPresence([connection(1)]);
    expect(await store.reporting([device])).to.deep.equal([{ deviceId: device, until: null }]);
  });

  it('mark the connected devices of a lost node, and of no other', async () => {
    await store.recordPresence([connection(4), connection(4, { deviceId: other, presence: GONE })]);
    const gone = await stored(other);
    expect(await store.markLost({ of: `node-${newId()}` })).to.deep.equal([]);
    turned = [];
    const [lost, ...more] = await store.markLost({ of: node });
    expect(more).to.deep.equal([]);
    expect([lost?.deviceId, lost?.epoch, turned]).to.deep.equal([device, 4, [device]]);
    const after = await stored();
    expect(after).to.include({ state: 'disconnected', reason: 'node_lost', epoch: 4 });
    expect(after['since']).to.deep.equal(time(lost?.presence.since ?? ''));
    expect(Date.parse(lost?.presence.since ?? '')).to.be.closeTo(Date.now(), 30_000);
    expect(await stored(other)).to.deep.equal(gone);
    expect(await store.markLost({ of: node })).to.deep.equal([]);
  });

  it('mark given devices of a node, and no others', async () => {
    await store.recordPresence([connection(4), connection(4, { deviceId: other })]);
    expect(await store.markLost({ of: `node-${newId()}`, deviceIds: [other] })).to.deep.equal([]);
    const lost = await store.markLost({ of: node, deviceIds: [other] });
    expect(lost.map(({ deviceId }) => deviceId)).to.deep.equal([other]);
    expect(await stored()).to.include({ state: 'connected' });
  });

  it('mark devices of no live node that are said to be connected since a time to come', async () => {
    const since = { state: 'connected', since: at(600), reason: 'connected' } as const;
    await store.recordPresence([connection(4, { presence: since })]);
    const rows = await asOwner<{ node_id: string }>(
      app.database.ownerUrl,
      'select distinct node_id from device_presence',
    );
    const alive = rows.map(({ node_id: nodeId }) => nodeId).filter((nodeId) => nodeId !== node);
    const lost = await store.markLost({ allBut: alive });
    expect(lost.map(({ deviceId }) => deviceId)).to.include(device);
  });

  it('mark the devices of all nodes that do not live, but for those that have connected just now', async () => {
    const since = (seconds: number) => ({
      presence: { state: 'connected', since: at(seconds), reason: 'connected' } as const,
    });
    await store.recordPresence([connection(4), connection(4, { deviceId: other, ...since(-2) })]);
    const rows = await asOwner<{ node_id: string }>(
      app.database.ownerUrl,
      'select distinct node_id from device_presence',
    );
    // Those of other tests live.
    const alive = rows.map(({ node_id: nodeId }) => nodeId).filter((nodeId) => nodeId !== node);
    expect(await store.markLost({ allBut: [...alive, node] })).to.deep.equal([]);
    const lost = await store.markLost({ allBut: alive });
    expect(lost.map(({ deviceId }) => deviceId)).to.deep.equal([device]);
    expect(await stored(other)).to.include({ state: 'connected' });
  });
});

import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { newToken } from '../../../../src/platform/secrets/tokens.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, graceOver, Refused } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

/** Long enough to connect again within it on a busy machine. */
const GRACE_MS = 30_000;

for (const agentWire of ['direct', 'stock'] as const) {
  describe(`agents on the hub, ${agentWire}`, () => {
    let app: TestApp;
    let tenant: Awaited<ReturnType<typeof buildTenant>>;
    let device: EnrolledDevice;

    before(async () => {
      app = await createTestApp({ graceMs: GRACE_MS, env: { AGENT_WIRE: agentWire } });
      tenant = await buildTenant(app);
    });
    after(async () => app.close());
    beforeEach(async () => {
      device = await buildDevice(app, tenant.orgId);
    });

    const read = async () =>
      (await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).body;
    const refusal = async (token: string, options = {}) => {
      const error: unknown = await connectDevice(app, token, options).then(
        (agent) => agent.close(),
        (caught: unknown) => caught,
      );
      if (!(error instanceof Refused)) throw new Error('the agent was let in');
      return error.refusal?.code;
    };

    it('shows a device as never seen, connected, and gone, with the reason and since when', async () => {
      expect(await read()).to.deep.include({ status: 'offline', lastSeenAt: null });
      expect((await read()).presence.reason).to.equal('never_seen');

      const agent = await connectDevice(app, device.token);
      await agent.heartbeat({
        metrics: { cpuPercent: 12.3, ramPercent: 40, diskPercent: 71.5 },
        osVersion: 'Debian 13',
        uptimeSeconds: 99.5,
      });
      await app.settle();
      const online = await read();
      expect(online).to.include({ status: 'online', osVersion: 'Debian 13' });
      expect(online.presence).to.include({ state: 'connected', reason: 'connected' });
      expect(online.metrics).to.include({ cpuPercent: 12.3, ramPercent: 40, diskPercent: 71.5 });
      expect(online.lastIp).to.equal('127.0.0.1');

      agent.close();
      await graceOver(app, device.deviceId, GRACE_MS);
      const offline = await read();
      expect(offline.status).to.equal('offline');
      expect(offline.presence).to.include({ state: 'disconnected', reason: 'socket_closed' });
      expect(Date.parse(offline.presence.since)).to.be.greaterThan(Date.parse(online.presence.since));
    });

    it('answers a heartbeat with the time, when the next is due and what to upgrade', async () => {
      const agent = await connectDevice(app, device.token);
      const answer = await agent.heartbeat();
      expect(answer).to.include({ ok: true, nextInMs: 60_000 });
      expect(answer.upgrade).to.deep.equal([]);
      expect(Math.abs(Date.parse(answer.at) - Date.now())).to.be.below(5000);
      agent.close();
    });

    it('keeps a device connected through a short break, since the first connection', async () => {
      const first = await connectDevice(app, device.token);
      await first.heartbeat();
      await app.settle();
      const before = await read();
      expect(before.status).to.equal('online');
      first.socket.disconnect();
      const second = await connectDevice(app, device.token);
      await second.heartbeat();
      await app.advance(GRACE_MS + 500);
      const after = await read();
      expect(after.status).to.equal('online');
      expect(after.presence.since).to.equal(before.presence.since);
      second.close();
    });

    it('lets the newest connection win and notifies the first', async () => {
      const first = await connectDevice(app, device.token);
      await first.heartbeat();
      const second = await connectDevice(app, device.token);
      await second.heartbeat();
      await eventually(
        () => first.socket.connected,
        (connected) => !connected,
      );
      expect(first.notices.map(({ reason }) => reason)).to.deep.equal(['superseded']);
      expect(second.socket.connected).to.equal(true);

      const asking = app.call('GET', `/system-tools/devices/${device.deviceId}/eventlogs`, {
        token: tenant.admin.token,
      });
      await second.succeed(await second.nextCommand(), { logs: [] });
      expect((await asking).status).to.equal(200);
      second.close();
    });

    it('refuses unknown tokens and protocols with a code', async () => {
      expect(await refusal('nonsense')).to.equal('UNAUTHENTICATED');
      // The form and the checksum are right; nobody has it.
      expect(await refusal(newToken('agent'))).to.equal('UNAUTHENTICATED');
      expect(await refusal(tenant.admin.token)).to.equal('UNAUTHENTICATED');
      expect(await refusal(device.token, { protocol: 2 })).to.equal('PROTOCOL_UNSUPPORTED');
      expect(await refusal(device.token, { agentVersion: '' })).to.equal('UNAUTHENTICATED');
    });

    it('ends the connection of a decommissioned device and refuses it afterwards', async () => {
      const agent = await connectDevice(app, device.token);
      await agent.heartbeat();
      const answer = await app.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
      expect(answer.body).to.deep.equal({ success: true });
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['decommissioned']);
      expect(await refusal(device.token)).to.equal('DECOMMISSIONED');
      expect(
        (await app.call('GET', `/devices/${device.deviceId}`, { token: tenant.admin.token })).status,
      ).to.equal(404);
    });

    it('ends the connection under a token that a new enrollment has replaced', async () => {
      const machineId = 'machine-1';
      const first = await buildDevice(app, tenant.orgId, { machineId });
      const agent = await connectDevice(app, first.token);
      await agent.heartbeat();
      const again = await buildDevice(app, tenant.orgId, { machineId }, first.token);
      expect(again.deviceId).to.equal(first.deviceId);
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      expect(await refusal(first.token)).to.equal('UNAUTHENTICATED');
      (await connectDevice(app, again.token)).close();
    });

    it('refuses each invalid message in its acknowledgement and accepts the next valid one', async () => {
      const agent = await connectDevice(app, device.token);
      const bad = [
        ['heartbeat', { at: 'yesterday', agentVersion: '1' }],
        ['heartbeat', 'text'],
        ['heartbeat', null],
        [
          'heartbeat',
          {
            at: new Date().toISOString(),
            agentVersion: '1',
            metrics: { cpuPercent: 101, ramPercent: 0, diskPercent: 0 },
          },
        ],
        ['command:result', { id: 1 }],
        ['no:such:event', {}],
        ['__proto__', {}],
      ] as const;
      for (const [event, payload] of bad) {
        const answer = (await agent.send(event, payload)) as {
          ok: boolean;
          error: { code: string; message: string };
        };
        expect(answer.ok, event).to.equal(false);
        expect(answer.error.code).to.be.oneOf(['VALIDATION_FAILED', 'UNKNOWN_EVENT']);
      }
      expect((await agent.heartbeat()).ok).to.equal(true);
      agent.close();
    });

    it('ends a connection that sends only invalid messages, without log entries for each', async () => {
      const agent = await connectDevice(app, device.token);
      for (let i = 0; i < 1000; i++) agent.socket.emit('heartbeat', { nonsense: i });
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['protocol_violation']);
      expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
    });

    it('ends a connection that sends 10 MB in one message, without effect on others', async () => {
      const bystanderDevice = await buildDevice(app, tenant.orgId);
      const bystander = await connectDevice(app, bystanderDevice.token);
      const agent = await connectDevice(app, device.token);
      agent.socket.emit('heartbeat', { at: new Date().toISOString(), agentVersion: 'x'.repeat(10_000_000) });
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      expect((await bystander.heartbeat()).ok).to.equal(true);
      bystander.close();
    });

    it('ends a query at once, with the reason, when its answer is 50 MB', async () => {
      const agent = await connectDevice(app, device.token);
      const asking = app.call('GET', `/devices/${device.deviceId}/eventlogs/live`, {
        token: tenant.admin.token,
      });
      const { id, epoch } = await agent.nextCommand();
      agent.socket.emit('command:result', { id, epoch, output: 'x'.repeat(50_000_000) });
      const answer = await asking;
      expect(answer.status, JSON.stringify(answer.body)).to.equal(502);
      expect(answer.body.details.code).to.equal('RESULT_TOO_LARGE');
      const again = await connectDevice(app, device.token);
      expect((await again.heartbeat()).ok).to.equal(true);
      again.close();
    });

    it('ends a connection that acknowledges nothing, before much waits for it', async () => {
      const agent = await connectDevice(app, device.token, { receipt: () => undefined });
      let asked = 0;
      while (agent.socket.connected && asked < 400) {
        const stop = new AbortController();
        const asking = app.call('GET', `/devices/${device.deviceId}/eventlogs/live`, {
          token: tenant.admin.token,
          signal: stop.signal,
        });
        asked += 1;
        await Promise.race([agent.nextCommand(), asking.catch(() => {})]);
        stop.abort();
        await asking.catch(() => {});
      }
      expect(asked).to.be.within(150, 250);
      expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['protocol_violation']);
    }).timeout(120_000);

    it('calls a device offline when its heartbeats stop although the socket is open', async () => {
      const quick = await createTestApp({ env: { AGENT_HEARTBEAT_SECONDS: '10' } });
      try {
        const other = await buildTenant(quick);
        const silent = await buildDevice(quick, other.orgId);
        const shown = async () =>
          (await quick.call('GET', `/devices/${silent.deviceId}`, { token: other.admin.token })).body;
        const agent = await connectDevice(quick, silent.token);
        expect((await agent.heartbeat()).nextInMs).to.equal(10_000);
        await quick.advance(20_000);
        expect((await shown()).status).to.equal('online');
        await quick.advance(7000);
        const gone = await shown();
        expect(gone.presence.reason).to.equal('heartbeat_missed');
        await eventually(
          () => agent.notices.length,
          (count) => count > 0,
        );
        expect(gone.status).to.equal('offline');
        expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['heartbeat_missed']);
      } finally {
        await quick.close();
      }
    });

    it('ignores a late write of an older connection', async () => {
      const agent = await connectDevice(app, device.token);
      await agent.heartbeat();
      await app.settle();
      const pool = app.server.database.pool;
      const [row] = await withSystem(pool, 'test', (tx) =>
        tx('device_presence').where({ device_id: device.deviceId }),
      );
      const store = (await import('../../../../src/features/devices/index.ts')).createDeviceStore({
        db: pool,
        nodeId: 'late',
        audit: createAuditTrail({ wake() {} }),
        log: quietLog,
      });
      await store.recordPresence([
        {
          deviceId: device.deviceId,
          epoch: Number(row.epoch) - 1,
          presence: { state: 'disconnected', since: new Date().toISOString(), reason: 'node_lost' },
          lastSeenAt: new Date().toISOString(),
          lastIp: null,
          metrics: null,
          uptimeSeconds: null,
        },
      ]);
      expect((await read()).status).to.equal('online');
      agent.close();
    });

    it('disconnects agents when it drains, with spread reconnect times, and accepts no new ones', async () => {
      const draining = await createTestApp();
      const other = await buildTenant(draining);
      const [a, b] = [await buildDevice(draining, other.orgId), await buildDevice(draining, other.orgId)];
      const agents = [await connectDevice(draining, a.token), await connectDevice(draining, b.token)];
      await draining.server.hub.drain();
      await eventually(
        () => agents.map(({ socket }) => socket.connected),
        (states) => !states.includes(true),
      );
      for (const agent of agents) {
        expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['draining']);
        expect(agent.notices[0]!.afterMs).to.be.within(1000, 5000);
      }
      const error: unknown = await connectDevice(draining, a.token).catch((caught: unknown) => caught);
      expect((error as Refused).refusal).to.deep.equal({ code: 'DRAINING', retryAfterMs: 5000 });
      await draining.close();
    });

    it('shows devices that were connected to a crashed server as lost', async () => {
      const first = await createTestApp();
      const other = await buildTenant(first);
      const lost = await buildDevice(first, other.orgId);
      const pool = first.server.database.pool;
      // What a killed process leaves behind.
      await withSystem(pool, 'test', (tx) =>
        tx('device_presence').insert({
          device_id: lost.deviceId,
          org_id: other.orgId,
          epoch: 1,
          node_id: 'dead',
          state: 'connected',
          since: new Date(),
          reason: 'connected',
        }),
      );
      const second = await createTestApp({ database: first.database });
      const answer = await second.call('GET', `/devices/${lost.deviceId}`, { token: other.admin.token });
      expect([answer.body.status, answer.body.presence.reason]).to.deep.equal(['offline', 'node_lost']);
      await second.close();
      await first.close();
    });
  });
}

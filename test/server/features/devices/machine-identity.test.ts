import type { Socket } from 'node:net';
import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildEnrollmentKey,
  buildPerson,
  buildTenant,
  type EnrolledDevice,
  giveSecondFactor,
  MACHINE,
} from '../../../support/factories.ts';
import { connectDevice, type FakeDevice, graceOver, type Refused } from '../../../support/fake-device.ts';
import { testClock } from '../../../support/test-clock.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, type Tenant } from './devices-support.ts';

const FIRST = { machineId: 'm-1', hostname: 'TILL-1', hardware: { serialNumber: 'SER-A' } };
const SECOND = { machineId: 'm-1', hostname: 'TILL-2', hardware: { serialNumber: 'SER-B' } };

describe('a machine with the machine id of another one', () => {
  let app: TestApp;
  let tenant: Tenant;
  let first: EnrolledDevice;
  let agents: FakeDevice[];
  const { send, sql, read, auditOf } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const connect = async (token: string, options = {}) => {
    const agent = await connectDevice(app, token, options);
    agents.push(agent);
    await agent.heartbeat();
    return agent;
  };
  const enroll = (machine: object, token?: string) => buildDevice(app, tenant.orgId, { ...machine }, token);
  const openAlerts = async () =>
    (await send('GET', '/alerts?kind=machine_identity_conflict&status=active')).body.data;
  const approve = (id: string, body: object = {}, person = tenant.admin) =>
    send('POST', `/devices/${id}/approve`, body, person);

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    tenant = await buildTenant(app);
    first = await enroll(FIRST);
  });
  afterEach(() => {
    for (const agent of agents) agent.close();
    for (const socket of silent.splice(0)) socket.destroy();
  });

  it('waits for approval while a connected device has that id, and an alert names both', async () => {
    const agent = await connect(first.token);
    const second = await enroll(SECOND);
    expect(second).to.deep.include({ status: 'pending' });
    expect(second.deviceId).not.to.equal(first.deviceId);
    expect(await read(second.deviceId)).to.deep.include({
      status: 'pending',
      hostname: 'TILL-2',
      conflictsWith: first.deviceId,
    });
    expect((await agent.heartbeat()).ok).to.equal(true);
    const [alert, ...others] = await openAlerts();
    expect(others).to.deep.equal([]);
    expect(alert).to.deep.include({ deviceId: second.deviceId, severity: 'high' });
    expect(alert.title).to.equal('TILL-2 claims the identity of TILL-1');
    expect(alert.details.device).to.deep.include({ deviceId: second.deviceId, serialNumber: 'SER-B' });
    expect(alert.details.conflictsWith).to.deep.include({ deviceId: first.deviceId, serialNumber: 'SER-A' });
    expect((await send('GET', '/devices?status=pending')).body.data).to.have.length(1);
  });

  it('is the same device if it sends the token of that device, or if no agent is connected', async () => {
    const agent = await connect(first.token);
    const again = await enroll(FIRST, first.token);
    expect(again).to.deep.include({ deviceId: first.deviceId, status: 'enrolled' });
    await eventually(
      () => agent.socket.connected,
      (connected) => !connected,
    );
    const stranger = await enroll({ machineId: 'm-2' });
    const offline = await enroll(FIRST, stranger.token);
    expect(offline).to.deep.include({ deviceId: first.deviceId, status: 'enrolled' });
    expect(await openAlerts()).to.deep.equal([]);
  });

  it('is the same device if the connection of that device is open and dead', async () => {
    const agent = await connect(first.token);
    stopReading(agent);
    const enrolling = enroll(FIRST);
    await app.advance(3500);
    expect(await enrolling).to.deep.include({ deviceId: first.deviceId, status: 'enrolled' });
  });

  it('raises the alert if it takes an offline device over with another serial number', async () => {
    expect((await enroll(SECOND)).deviceId).to.equal(first.deviceId);
    const [alert] = await openAlerts();
    expect(alert.message).to.contain('SER-A').and.contain('SER-B');
    expect(await read(first.deviceId)).to.deep.include({ hostname: 'TILL-2' });
    const renamed = (await auditOf(first.deviceId)).find(({ action }) => action === 'device.renamed');
    expect(renamed?.details).to.deep.include({
      before: { hostname: 'TILL-1' },
      after: { hostname: 'TILL-2' },
    });
  });

  it('becomes one device that waits, however often and however many at once try', async () => {
    await connect(first.token);
    await sql('update organizations set max_devices = 2 where id = ?', [tenant.orgId]);
    const waiting = await Promise.all([enroll(SECOND), enroll(SECOND), enroll(SECOND)]);
    const again = await enroll(SECOND);
    expect(new Set([...waiting, again].map(({ deviceId }) => deviceId))).to.have.property('size', 1);
    await connect(again.token);
    const enrollmentKey = await buildEnrollmentKey(app, tenant.orgId);
    const third = await app.call('POST', '/agents/enroll', {
      body: { ...MACHINE, ...SECOND, enrollmentKey },
    });
    expect([third.status, third.body.code]).to.deep.equal([403, 'LIMIT_REACHED']);
  });

  it('becomes one device if two enroll at once with two keys and no device has the id yet', async () => {
    await sql('update organizations set max_devices = 2 where id = ?', [tenant.orgId]);
    const both = await Promise.all([enroll({ machineId: 'm-9' }), enroll({ machineId: 'm-9' })]);
    expect(both[0].deviceId).to.equal(both[1].deviceId);
    const tokens = await Promise.allSettled(both.map(({ token }) => connect(token)));
    expect(tokens.filter(({ status }) => status === 'fulfilled')).to.have.length(1);
  });

  it('counts as a new device if the id is one that many machines have', async () => {
    const ids = ['uninitialized', '0'.repeat(32), '03000200-0400-0500-0006-000700080009', ''];
    const devices = await Promise.all(
      ids.flatMap((machineId) => [enroll({ machineId }), enroll({ machineId })]),
    );
    expect(new Set(devices.map(({ deviceId }) => deviceId)).size).to.equal(8);
    expect(new Set(devices.map((device) => (device as { status?: string }).status))).to.deep.equal(
      new Set(['enrolled']),
    );
  });

  describe('that waits', () => {
    let waiting: EnrolledDevice;
    let agent: FakeDevice;
    beforeEach(async () => {
      await connect(first.token);
      waiting = await enroll(SECOND);
      agent = await connect(waiting.token);
      await app.settle();
    });

    it('connects and sends heartbeats, and is given nothing', async () => {
      expect(await agent.heartbeat()).to.deep.include({ ok: true, upgrade: [], isPending: true });
      const id = waiting.deviceId;
      expect(await read(id)).to.deep.include({ status: 'pending', capabilities: [] });
      const refusals = [
        await send('POST', `/devices/${id}/commands`, { type: 'agent.refresh-inventory' }),
        await send('GET', `/devices/${id}/eventlogs/live`),
        await send('POST', `/backup/jobs/run/${id}`, {}),
        await send('GET', `/devices/${id}/eventlogs/System`),
      ];
      for (const { status, body } of refusals) {
        expect([status, body.code]).to.deep.equal([409, 'DEVICE_PENDING']);
      }
      const bulk = await send('POST', '/devices/bulk/commands', {
        deviceIds: [id, first.deviceId],
        type: 'agent.refresh-inventory',
      });
      expect(bulk.body.refused.map(({ code }: { code: string }) => code)).to.deep.equal(['DEVICE_PENDING']);
      const maintenance = await send('POST', `/devices/${id}/maintenance`, { enabled: true });
      expect(maintenance.status).to.equal(409);
      const inventory = await app.call('POST', `/agents/${id}/inventory`, {
        token: waiting.token,
        body: { collectedAt: new Date().toISOString() },
      });
      expect([inventory.status, inventory.body.code]).to.deep.equal([409, 'DEVICE_PENDING']);
      const overHttp = await app.call('POST', `/agents/${id}/heartbeat`, {
        token: waiting.token,
        body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
      });
      expect(overHttp.body).to.deep.include({ ok: true, upgrade: [] });
      // What stands in the ledger by another way is not sent either.
      await sql(
        `insert into commands (id, org_id, device_id, type, payload, timeout_seconds, expires_at)
        values (new_row_id(), ?, ?, 'agent.refresh-inventory', '{}', 60, now() + interval '1 hour')`,
        [tenant.orgId, id],
      );
      app.server.hub.deliver(id);
      await app.settle();
      expect(agent.commands).to.deep.equal([]);
    });

    it('is in service when a person approves it, and its agent reconnects', async () => {
      const viewer = await buildPerson(app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      expect((await approve(waiting.deviceId, {}, viewer)).status).to.equal(403);
      const stranger = await buildTenant(app);
      expect((await approve(waiting.deviceId, {}, stranger.admin)).status).to.equal(404);

      const approved = await approve(waiting.deviceId);
      expect([approved.status, approved.body.status]).to.be.deep.equal([200, 'online']);
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      await connect(waiting.token);
      await app.settle();
      expect(await openAlerts()).to.deep.equal([]);
      expect(
        (await send('POST', `/devices/${waiting.deviceId}/commands`, { type: 'agent.refresh-inventory' }))
          .status,
      ).to.equal(202);
      expect((await approve(waiting.deviceId)).status).to.equal(409);
      expect((await connect(first.token, { bootId: 'boot-1' })).socket.connected).to.equal(true);
    });

    it('continues another device in its place, whose own token ends', async () => {
      const { deviceId: id } = waiting;
      const replaces = first.deviceId;
      await send('PATCH', `/devices/${replaces}`, { displayName: 'Till', tags: ['front'] });
      expect((await approve(id, { replaces })).body.code).to.equal('MFA_REQUIRED');
      await giveSecondFactor(app, tenant.admin);
      expect((await approve(id, { replaces: id })).status).to.equal(400);
      const stranger = await buildTenant(app);
      const foreign = await buildDevice(app, stranger.orgId);
      expect((await approve(id, { replaces: foreign.deviceId })).status).to.equal(400);

      const answer = await approve(id, { replaces });
      expect(answer.status, JSON.stringify(answer.body)).to.equal(200);
      expect(answer.body).to.deep.include({
        id: replaces,
        hostname: 'TILL-2',
        displayName: 'Till',
        tags: ['front'],
      });
      const refused: unknown = await connectDevice(app, first.token).catch((error: unknown) => error);
      expect((refused as Refused).refusal?.code).to.equal('UNAUTHENTICATED');
      await connect(waiting.token);
      await app.settle();
      expect(await read(replaces)).to.deep.include({ status: 'online' });
      expect((await send('GET', `/devices/${id}`)).status).to.equal(404);
      // The agent still knows itself by the id under which it was enrolled.
      for (const path of [id, replaces]) {
        const inventory = await app.call('POST', `/agents/${path}/inventory`, {
          token: waiting.token,
          body: { lastUser: 'ada', collectedAt: new Date().toISOString() },
        });
        expect(inventory.status, JSON.stringify(inventory.body)).to.equal(200);
      }
      const rotated = await app.call('POST', `/agents/${id}/token/rotate`, { token: waiting.token });
      expect(rotated.status).to.equal(201);
      const heartbeat = await app.call('POST', `/agents/${id}/heartbeat`, {
        token: rotated.body.token,
        body: { at: new Date().toISOString(), agentVersion: '1.0.0' },
      });
      expect(heartbeat.status).to.equal(200);
      expect(await openAlerts()).to.deep.equal([]);
      const entry = (await auditOf(replaces)).find(({ action }) => action === 'device.approve');
      expect(entry?.details).to.deep.include({ replaces, approved: id });
      expect(entry?.details['before']).to.deep.include({ hostname: 'TILL-1' });
      expect(entry?.details['after']).to.deep.include({ hostname: 'TILL-2' });
    });

    it('is gone when a person removes it, and waits again when it tries again', async () => {
      expect((await send('DELETE', `/devices/${waiting.deviceId}`)).status).to.equal(200);
      expect(await openAlerts()).to.deep.equal([]);
      const again = await enroll(SECOND);
      expect(again).to.deep.include({ status: 'pending' });
      expect(again.deviceId).not.to.equal(waiting.deviceId);
      expect(await openAlerts()).to.have.length(1);
    });
  });

  describe('and its token', () => {
    const refusalOf = (token: string, bootId: string) =>
      connect(token, { bootId }).then(
        () => undefined,
        (error: unknown) => (error as Refused).refusal,
      );

    it('is refused while the first machine is connected, and an alert says so', async () => {
      const agent = await connect(first.token, { bootId: 'a', machine: { serialNumber: 'SER-A' } });
      for (let times = 0; times < 5; times++) {
        expect(await refusalOf(first.token, 'b')).to.deep.equal({
          code: 'IDENTITY_CONFLICT',
          retryAfterMs: 60_000,
        });
      }
      expect([agent.socket.connected, agent.notices]).to.deep.equal([true, []]);
      await app.settle();
      const [alert, ...others] = await openAlerts();
      expect(others).to.deep.equal([]);
      expect(alert).to.deep.include({ deviceId: first.deviceId, count: 1 });
      expect(alert.details.holder).to.deep.include({ serialNumber: 'SER-A', ip: '127.0.0.1' });
      const overHttp = (bootId: string) =>
        app.call('POST', `/agents/${first.deviceId}/heartbeat`, {
          token: first.token,
          body: { at: new Date().toISOString(), agentVersion: '1.0.0', bootId },
        });
      expect((await overHttp('b')).body.code).to.equal('IDENTITY_CONFLICT');
      expect((await overHttp('a')).status).to.equal(200);

      agent.close();
      await graceOver(app, first.deviceId);
      expect(await refusalOf(first.token, 'b')).to.equal(undefined);
      expect((await refusalOf(first.token, 'a'))?.code).to.equal('IDENTITY_CONFLICT');
    });

    it('replaces its own connection at once, and a dead one after a moment', async () => {
      const agent = await connect(first.token, { bootId: 'a' });
      expect(await refusalOf(first.token, 'a')).to.equal(undefined);
      await eventually(
        () => agent.socket.connected,
        (connected) => !connected,
      );
      stopReading(agents.at(-1)!);
      const restarted = refusalOf(first.token, 'b');
      await app.advance(3500);
      expect(await restarted).to.equal(undefined);
      expect(await openAlerts()).to.deep.equal([]);
    });

    it('takes turns no more than twice with a copy of its memory', async () => {
      let replaced = 0;
      const take = async () => {
        const before = agents.at(-1);
        const refusal = await refusalOf(first.token, 'a');
        if (refusal !== undefined || before === undefined) return refusal;
        replaced += 1;
        await eventually(
          () => before.socket.connected,
          (connected) => !connected,
        );
        // An agent that was replaced waits for a minute.
        await testClock.advance(60_000);
        testClock.jump(-60_000);
        await agents.at(-1)?.heartbeat();
        return undefined;
      };
      for (let times = 0; times < 4; times++) await take();
      expect(replaced).to.equal(2);
      expect((await take())?.code).to.equal('IDENTITY_CONFLICT');
      await app.settle();
      expect(await openAlerts()).to.have.length(1);
    });
  });
});

const silent: Socket[] = [];

/** What the other end of a connection looks like after a power failure: open, and silent. */
function stopReading({ socket }: FakeDevice): void {
  const { transport } = socket.io.engine as unknown as { transport: { ws: { _socket: Socket } } };
  silent.push(transport.ws._socket.pause());
}

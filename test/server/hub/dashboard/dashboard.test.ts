import { expect } from 'chai';
import { newId } from '../../../../src/platform/ids.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
} from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('dashboard feed', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await createTestApp({ graceMs: 200, dashboardRecheckMs: 200 });
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  it('shows the current state, then changes, numbered without a gap', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const client = await connectDashboard(app, tenant.admin.token);
    const snapshot = await client.subscribe();
    expect(snapshot.devices.map(({ id, status }) => ({ id, status }))).to.deep.equal([
      { id: device.deviceId, status: 'offline' },
    ]);
    expect(snapshot.counts).to.deep.equal({ total: 1, byStatus: { offline: 1 } });

    const agent = await connectDevice(app, device.token);
    await agent.heartbeat({ metrics: { cpuPercent: 1, ramPercent: 2, diskPercent: 3 } });
    await eventually(
      () => client.deltas,
      (deltas) => deltas.some(({ changed }) => changed[0]?.status === 'online'),
    );
    const online = client.deltas.find(({ changed }) => changed[0]?.status === 'online')!;
    expect(online.changed[0]).to.deep.include({ id: device.deviceId });
    expect(online.changed[0]!.presence).to.include({ state: 'connected', reason: 'connected' });
    expect(online.counts).to.deep.equal({ total: 1, byStatus: { online: 1 } });

    agent.close();
    await eventually(
      () => client.deltas,
      (deltas) => deltas.at(-1)?.changed[0]?.status === 'offline',
    );
    expect(client.deltas.map(({ seq }) => seq)).to.deep.equal(
      client.deltas.map((_delta, index) => snapshot.seq + 1 + index),
    );
    client.close();
  });

  it('shows live state that is not in the database yet', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    await agent.heartbeat();
    const client = await connectDashboard(app, tenant.admin.token);
    const { devices } = await client.subscribe();
    expect(devices[0]).to.include({ status: 'online' });
    agent.close();
    client.close();
  });

  it('combines many changes into few frames with the latest state', async () => {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    const startedAt = Date.now();
    for (let cpuPercent = 1; cpuPercent <= 100; cpuPercent++) {
      await agent.heartbeat({ metrics: { cpuPercent, ramPercent: 0, diskPercent: 0 } });
    }
    await eventually(
      () => client.deltas.at(-1)?.changed[0]?.metrics?.cpuPercent,
      (cpu) => cpu === 100,
    );
    expect(client.deltas.length).to.be.at.most(2 + (Date.now() - startedAt) / 250);
    agent.close();
    client.close();
  });

  it('shows devices that enroll as entering, and decommissioned ones as leaving', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    const device = await buildDevice(app, tenant.orgId);
    await eventually(
      () => client.deltas.flatMap(({ entered }) => entered.map(({ id }) => id)),
      (ids) => ids.includes(device.deviceId),
    );
    expect(client.deltas.at(-1)!.counts.total).to.equal(1);
    await app.call('DELETE', `/devices/${device.deviceId}`, { token: tenant.admin.token });
    await eventually(
      () => client.deltas.flatMap(({ left }) => left),
      (ids) => ids.includes(device.deviceId),
    );
    expect(client.deltas.at(-1)!.counts.total).to.equal(0);
    client.close();
  });

  it('keeps within the scope of each subscriber, initially and later', async () => {
    const otherOrg = await buildOrganization(app, tenant.partnerId);
    const stranger = await buildTenant(app);
    const watchers = {
      partner: await connectDashboard(app, tenant.admin.token),
      organization: await connectDashboard(app, tenant.technician.token),
      selected: await connectDashboard(
        app,
        (
          await buildPerson(app, {
            scope: 'partner',
            partnerId: tenant.partnerId,
            orgAccess: 'selected',
            orgIds: [otherOrg],
          })
        ).token,
      ),
      stranger: await connectDashboard(app, stranger.admin.token),
      system: await connectDashboard(app, (await buildPerson(app, { scope: 'system' })).token),
    };
    for (const client of Object.values(watchers)) await client.subscribe();
    const inFirst = await buildDevice(app, tenant.orgId);
    const inOther = await buildDevice(app, otherOrg);
    const agent = await connectDevice(app, inFirst.token);
    await agent.heartbeat();
    const seen = (client: (typeof watchers)[keyof typeof watchers]) =>
      new Set(client.deltas.flatMap(({ entered, changed }) => [...entered, ...changed].map(({ id }) => id)));
    await eventually(
      () => seen(watchers.system).size,
      (size) => size === 2,
    );
    // Everything that waited for a frame is sent, and each has received it when it has the answer to a later message.
    await app.settle();
    for (const client of Object.values(watchers)) {
      await client.send('devices:unsubscribe', { subscriptionId: newId() });
    }
    expect([...seen(watchers.partner)]).to.have.members([inFirst.deviceId, inOther.deviceId]);
    expect([...seen(watchers.organization)]).to.deep.equal([inFirst.deviceId]);
    expect([...seen(watchers.selected)]).to.deep.equal([inOther.deviceId]);
    expect([...seen(watchers.stranger)]).to.deep.equal([]);
    agent.close();
    for (const client of Object.values(watchers)) client.close();
  });

  it('narrows to one organization or site, and refuses a foreign one', async () => {
    const secondSite = await buildSite(app, tenant.orgId);
    await buildDevice(app, tenant.orgId);
    const client = await connectDashboard(app, tenant.admin.token);
    expect((await client.subscribe({ orgId: tenant.orgId })).devices).to.have.length(1);
    expect((await client.subscribe({ siteId: secondSite })).devices).to.have.length(0);
    const stranger = await buildTenant(app);
    expect(await client.subscribe({ orgId: stranger.orgId })).to.deep.equal({
      ok: false,
      error: { code: 'FORBIDDEN', message: 'Access to this organization denied' },
    });
    client.close();
  });

  it('refuses invalid messages, and clients that are not signed in', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    expect((await client.send('devices:subscribe', { orgId: 'x' })).error.code).to.equal('VALIDATION_FAILED');
    expect((await client.send('devices:subscribe', { nonsense: 1 })).error.code).to.equal(
      'VALIDATION_FAILED',
    );
    expect((await client.send('no:such:event')).error.code).to.equal('NOT_FOUND');
    expect((await client.subscribe()).ok).to.equal(true);
    client.close();
    for (const token of ['', 'nonsense', `${tenant.admin.token}x`]) {
      const error: unknown = await connectDashboard(app, token).catch((caught: unknown) => caught);
      expect(error, token).to.be.instanceOf(Error);
      expect((error as { data: { code: string } }).data.code).to.equal('UNAUTHENTICATED');
    }
  });

  it('disconnects a person whose session or rights have changed', async () => {
    const clients = [
      await connectDashboard(app, tenant.admin.token),
      await connectDashboard(app, tenant.technician.token),
    ];
    await app.call('POST', '/auth/logout', { token: tenant.admin.token });
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('organization_users')
        .where({ user_id: tenant.technician.id })
        .update({ role_id: SYSTEM_ROLES.organizationViewer }),
    );
    await eventually(
      () => clients.map(({ socket }) => socket.connected),
      (states) => !states.includes(true),
    );
  });
});

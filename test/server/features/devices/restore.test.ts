import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { connectDashboard } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import {
  buildDevice,
  buildEnrollmentKey,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
  type EnrolledDevice,
  MACHINE,
} from '../../../support/factories.ts';
import { connectDevice, type Refused } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { deviceGround, type Tenant } from './devices-support.ts';

describe('a decommissioned device', () => {
  let app: TestApp;
  let tenant: Tenant;
  let device: EnrolledDevice;
  const { send, sql, read, auditOf } = deviceGround(
    () => app,
    () => tenant.admin,
  );
  const decommission = (id = device.deviceId) => send('DELETE', `/devices/${id}`);
  const restore = (id = device.deviceId, person = tenant.admin) =>
    send('POST', `/devices/${id}/restore`, undefined, person);
  const refusalOf = (token: string) =>
    connectDevice(app, token).then(
      () => 'connected',
      (error: unknown) => (error as Refused).refusal?.code,
    );

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
    device = await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
  });

  it('is out of every list but its own, and comes back as it was', async () => {
    const path = `/devices/${device.deviceId}`;
    await send('PATCH', path, { displayName: 'Till', tags: ['front'] });
    await send('POST', `${path}/maintenance`, { enabled: true, until: '2026-12-01T00:00:00.000Z' });
    const group = await send('POST', '/groups', {
      orgId: tenant.orgId,
      name: 'Tills',
      deviceIds: [device.deviceId],
    });
    const { updatedAt: _before, ...before } = await read(device.deviceId);
    expect(before).to.deep.include({ status: 'maintenance', groupIds: [group.body.id] });
    await decommission();
    const listed = async (query: string) =>
      (await send('GET', `/devices?${query}`)).body.data.map(({ id }: { id: string }) => id);
    expect(await listed('')).to.deep.equal([]);
    expect(await listed('status=maintenance')).to.deep.equal([]);
    expect(await listed('status=decommissioned')).to.deep.equal([device.deviceId]);
    expect(await listed(`status=decommissioned&orgId=${tenant.orgId}&search=till`)).to.have.length(1);
    expect((await send('GET', '/devices?status=decommissioned')).body.data[0]).to.include({
      status: 'decommissioned',
      maintenanceUntil: null,
    });
    expect((await send('GET', path)).status).to.equal(404);
    expect((await send('PATCH', path, { tags: [] })).status).to.equal(404);
    expect((await decommission()).status).to.equal(404);

    const restored = await restore();
    expect(restored.status).to.equal(200);
    const { updatedAt: _after, ...after } = await read(device.deviceId);
    expect(after).to.deep.equal(before);
    expect(await listed('')).to.deep.equal([device.deviceId]);
    expect((await auditOf(device.deviceId)).map(({ action }) => action)).to.deep.equal([
      'device.update',
      'device.maintenance',
      'device.delete',
      'device.restore',
    ]);
  });

  it('is shown leaving, and coming back', async () => {
    const client = await connectDashboard(app, tenant.admin.token);
    await client.subscribe();
    await decommission();
    await eventually(
      () => client.deltas,
      (deltas) => deltas.some(({ left }) => left.includes(device.deviceId)),
    );
    await restore();
    await eventually(
      () => client.deltas,
      (deltas) => deltas.some(({ entered }) => entered[0]?.id === device.deviceId),
    );
    expect(client.deltas.at(-1)!.counts).to.deep.equal({ total: 1, byStatus: { offline: 1 } });
    client.close();
  });

  it('has a dead token also when it is back, until its agent enrolls again', async () => {
    const agent = await connectDevice(app, device.token);
    await decommission();
    await eventually(
      () => agent.socket.connected,
      (connected) => !connected,
    );
    expect(agent.notices.map(({ reason }) => reason)).to.deep.equal(['decommissioned']);
    expect(await refusalOf(device.token)).to.equal('DECOMMISSIONED');
    await restore();
    expect(await refusalOf(device.token)).to.equal('UNAUTHENTICATED');
    const again = await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
    expect(again.deviceId).to.equal(device.deviceId);
    const back = await connectDevice(app, again.token);
    await back.heartbeat();
    back.close();
  });

  it('and one in service that enrolls at another site are seen there, and no longer where they were', async () => {
    const site = await buildSite(app, tenant.orgId);
    const [from, to] = [
      await connectDashboard(app, tenant.admin.token),
      await connectDashboard(app, tenant.admin.token),
    ];
    await from.subscribe({ siteId: device.siteId });
    await to.subscribe({ siteId: site });
    for (const siteId of [site, device.siteId]) {
      if (siteId === device.siteId) await decommission();
      const key = await buildEnrollmentKey(app, tenant.orgId, { site_id: siteId });
      const agent = siteId === site ? await connectDevice(app, device.token) : undefined;
      const answer = await app.call('POST', '/agents/enroll', {
        body: { ...MACHINE, machineId: 'machine-1', enrollmentKey: key },
        ...(agent === undefined ? {} : { token: device.token }),
      });
      expect(answer.body.deviceId).to.equal(device.deviceId);
      // A connection under the token of before is over.
      await eventually(
        () => agent?.socket.connected === true,
        (connected) => !connected,
      );
      const [left, entered] = siteId === site ? [from, to] : [to, from];
      await eventually(
        () => [left.deltas.at(-1)?.left[0], entered.deltas.at(-1)?.entered[0]?.id],
        (ids) => ids.every((id) => id === device.deviceId),
      );
    }
    from.close();
    to.close();
  });

  it('that enrolled again is in service, and cannot be restored', async () => {
    await send('POST', `/devices/${device.deviceId}/maintenance`, { enabled: true });
    await decommission();
    await buildDevice(app, tenant.orgId, { machineId: 'machine-1' });
    expect((await restore()).body.code).to.equal('CONFLICT');
    expect(await read(device.deviceId)).to.include({ status: 'offline' });
    await decommission();
    await restore();
    // As it was last, and not as it was before it had enrolled again.
    expect(await read(device.deviceId)).to.include({ status: 'offline' });
  });

  it('is restored within reach, by people who may, if its organization is active', async () => {
    expect((await restore()).body.code).to.equal('CONFLICT');
    await decommission();
    const stranger = await buildTenant(app);
    expect((await restore(device.deviceId, stranger.admin)).status).to.equal(404);
    expect((await restore(device.deviceId, tenant.technician)).status).to.equal(403);
    await sql(`update organizations set status = 'suspended' where id = ?`, [tenant.orgId]);
    expect((await restore()).body.code).to.equal('TENANT_INACTIVE');
  });

  it('comes back only within the caps, however many come at once and whatever their caller sees', async () => {
    for (const capOf of ['organizations', 'partners']) {
      const partner = await buildTenant(app);
      const second = await buildOrganization(app, partner.partnerId);
      // Sees one of the two organizations; the provider's cap is one of both.
      const selected = await buildPerson(app, {
        scope: 'partner',
        partnerId: partner.partnerId,
        role: SYSTEM_ROLES.partnerAdmin,
        orgAccess: 'selected',
        orgIds: [partner.orgId],
      });
      const gone: string[] = [];
      for (let n = 0; n < 5; n++) gone.push((await buildDevice(app, partner.orgId)).deviceId);
      for (const id of gone) {
        expect((await send('DELETE', `/devices/${id}`, undefined, partner.admin)).status).to.equal(200);
      }
      for (let n = 0; n < 2; n++) await buildDevice(app, capOf === 'partners' ? second : partner.orgId);
      await sql(`update ${capOf} set max_devices = 4 where id = ?`, [
        capOf === 'partners' ? partner.partnerId : partner.orgId,
      ]);
      const key = await buildEnrollmentKey(app, partner.orgId);
      const [newcomer, ...answers] = await Promise.all([
        app.call('POST', '/agents/enroll', { body: { ...MACHINE, enrollmentKey: key } }),
        ...gone.map((id) => restore(id, selected)),
      ]);
      const statuses = [
        newcomer.status === 201 ? 200 : newcomer.status,
        ...answers.map(({ status }) => status),
      ];
      expect(
        statuses.filter((status) => status === 200),
        capOf,
      ).to.have.length(2);
      expect(
        statuses.filter((status) => status === 403),
        capOf,
      ).to.have.length(4);
      const refused = answers.find(({ status }) => status === 403);
      expect(refused?.body.code).to.equal('LIMIT_REACHED');
      expect(refused?.body.error).to.contain(capOf === 'partners' ? 'provider' : 'organization');
    }
  });
});

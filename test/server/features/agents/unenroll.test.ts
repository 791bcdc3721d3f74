import { expect } from 'chai';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('a machine that leaves', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const leave = (id = device.deviceId, token = device.token) =>
    app.call('POST', `/agents/${id}/unenroll`, { token });
  const isListed = async (search: string, id = device.deviceId) => {
    const { body } = await app.call('GET', `/devices?limit=100${search}`, { token: tenant.admin.token });
    return body.data.some((one: { id: string }) => one.id === id);
  };

  it('is decommissioned, disconnected and can come back only by a new enrollment', async () => {
    const agent = await connectDevice(app, device.token);
    expect((await leave()).body).to.deep.equal({ success: true });
    await eventually(
      () => agent.socket.connected,
      (connected) => !connected,
    );
    expect(await isListed('&status=decommissioned')).to.equal(true);
    expect(await isListed('')).to.equal(false);
    expect((await leave()).status).to.equal(401);
    const restored = await app.call('POST', `/devices/${device.deviceId}/restore`, {
      token: tenant.admin.token,
    });
    expect(restored.status).to.equal(200);
    expect((await leave()).status).to.equal(401);
  });

  it('is in the audit log as what its agent did', async () => {
    await leave();
    await app.server.chainWriter.flush();
    const { rows } = await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(
        'select action, actor_type, org_id, result from audit_logs where resource_id = ? and action = ?',
        [device.deviceId, 'device.delete'],
      ),
    );
    expect(rows).to.deep.equal([
      { action: 'device.delete', actor_type: 'agent', org_id: tenant.orgId, result: 'success' },
    ]);
  });

  it('cannot take another device along', async () => {
    const other = await buildDevice(app, tenant.orgId, { machineId: 'another', hostname: 'DESK-2' });
    expect((await leave(other.deviceId)).status).to.be.oneOf([401, 403, 404]);
    expect(await isListed('', other.deviceId)).to.equal(true);
    expect((await leave(device.deviceId, tenant.admin.token)).status).to.be.oneOf([401, 403]);
  });
});

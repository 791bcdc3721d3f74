import { expect } from 'chai';
import { buildDevice, buildPerson, buildTenant, type Person } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { entriesOf } from './reading-support.ts';

describe('the entry about data that was read', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });

  const read = async (path: string, { token }: Person = tenant.admin) => {
    const { status, body } = await app.call('GET', path, { token });
    expect(status, JSON.stringify(body)).to.equal(200);
  };
  const accesses = async (deviceId: string) =>
    (await entriesOf(app, 'data.access')).filter(({ resource_id: id }) => id === deviceId);

  it('is written for a live view that has no transaction of its own, once for all its pages', async () => {
    const { deviceId } = await buildDevice(app, tenant.orgId);
    const path = `/backup/hyperv/vms/${deviceId}`;
    await read(path);
    await read(`${path}?refresh=false`);
    const entries = await accesses(deviceId);
    expect(entries).to.have.length(1);
    expect(entries[0]?.details).to.deep.include({ what: 'machines of Hyper-V' });

    await read(`/backup/databases/instances/${deviceId}`);
    await read(`/backup/databases/instances/${deviceId}?engine=mssql`);
    expect(await accesses(deviceId), 'another question').to.have.length(3);
    const other = await buildPerson(app, { scope: 'partner', partnerId: tenant.partnerId });
    await read(path, other);
    expect(await accesses(deviceId), 'another person').to.have.length(4);
    const { deviceId: second } = await buildDevice(app, tenant.orgId);
    await read(`/backup/hyperv/vms/${second}`);
    expect(await accesses(second), 'another device').to.have.length(1);
  });

  it('is not written for what the caller was not shown', async () => {
    const [{ deviceId }, stranger] = [await buildDevice(app, tenant.orgId), await buildTenant(app)];
    const { status } = await app.call('GET', `/backup/kvm/vms/${deviceId}`, { token: stranger.admin.token });
    expect(status).to.equal(404);
    await read('/backup/kvm/vms', stranger.admin);
    expect(await accesses(deviceId)).to.deep.equal([]);
  });
});

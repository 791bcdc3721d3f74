import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import {
  buildDevice,
  buildOrganization,
  buildPerson,
  buildSite,
  buildTenant,
} from '../../../support/factories.ts';
import { raisedAlert } from '../../../support/raised-alert.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('causes of alerts', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    app = await sharedTestApp();
  });
  after(async () => app.close());
  beforeEach(async () => {
    tenant = await buildTenant(app);
  });

  const causes = async (query = '', { token } = tenant.admin) => {
    const { status, body } = await app.call('GET', `/alerts/causes${query}`, { token });
    return { status, body, data: body.data ?? [] };
  };
  const device = async (hostname: string, siteId = tenant.siteId, orgId = tenant.orgId) => {
    const { deviceId } = await buildDevice(app, orgId, { hostname });
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('devices').where({ id: deviceId }).update({ site_id: siteId }),
    );
    return deviceId;
  };
  type Wanted = Partial<Parameters<typeof raisedAlert>[1]>;
  const raise = (minutesAgo: number, wanted: Wanted) =>
    withSystem(app.server.database.pool, 'test', async (tx) => {
      const id = await raisedAlert(tx, {
        orgId: tenant.orgId,
        kind: 'device_offline',
        severity: 'medium',
        title: 'The device is offline',
        message: 'It has not answered.',
        ...wanted,
      });
      await tx('alerts')
        .where({ id })
        .update({ raised_at: new Date(Date.now() - minutesAgo * 60_000) });
      return id;
    });

  it('are one for devices of a site that went dark together, and one for those that did not', async () => {
    const others = await buildSite(app, tenant.orgId);
    const ids: string[] = [];
    for (const [place, minutes] of [60, 55, 47].entries()) {
      ids.push(await raise(minutes, { deviceId: await device(`PORTO-${place}`) }));
    }
    const alone = await raise(51, { deviceId: await device('LISBON', others) });
    const long = await raise(3000, { deviceId: await device('PORTO-OLD') });
    const { data } = await causes();
    expect(data).to.have.length(2);
    expect(data[0]).to.deep.include({
      orgId: tenant.orgId,
      siteId: tenant.siteId,
      kind: 'device_offline',
      isTogether: true,
      count: 3,
      deviceCount: 3,
      title: 'The device is offline',
      alertIds: ids,
    });
    expect(data[0].devices.map(({ name }: { name: string }) => name)).to.deep.equal([
      'PORTO-0',
      'PORTO-1',
      'PORTO-2',
    ]);
    expect(data[1]).to.deep.include({ siteId: null, isTogether: false, count: 2, alertIds: [long, alone] });
  });

  it('come worst first, then those of most alerts, and leave out what people have acknowledged', async () => {
    const deviceId = await device('DESK');
    await raise(10, { deviceId, kind: 'cpu_high', severity: 'low', title: 'Busy' });
    const critical = await raise(20, { deviceId, kind: 'disk_full', severity: 'critical', title: 'Full' });
    const known = await raise(5, {
      deviceId,
      kind: 'memory_high',
      severity: 'critical',
      title: 'Full of it',
    });
    const tenantWide = await raise(30, { kind: 'webhook_disabled', severity: 'high', title: 'No webhook' });
    await app.call('POST', `/alerts/${known}/acknowledge`, { token: tenant.admin.token, body: {} });
    const { data } = await causes();
    expect(data.map(({ kind }: { kind: string }) => kind)).to.deep.equal([
      'disk_full',
      'webhook_disabled',
      'cpu_high',
    ]);
    expect(data[0].alertIds).to.deep.equal([critical]);
    expect(data[1]).to.deep.include({
      alertIds: [tenantWide],
      devices: [],
      deviceCount: 0,
      siteId: null,
      isTogether: false,
    });
    expect((await causes('?limit=1')).data).to.have.length(1);
  });

  it('take the worst severity, and no title where titles differ', async () => {
    const kind = 'disk_full';
    await raise(10, { deviceId: await device('A'), kind, severity: 'low', title: 'C: is full' });
    await raise(9, { deviceId: await device('B'), kind, severity: 'high', title: 'D: is full' });
    expect((await causes()).data).to.have.length(1);
    expect((await causes()).data[0]).to.include({ severity: 'high', title: null, count: 2 });
  });

  it('name few of many: ids of a hundred alerts, and three devices', async () => {
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx.raw(
        `with d as (insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version,
            enrolled_at)
          select new_row_id(), ?, ?, 'D-' || n, 'linux', 'Debian 12', 'x64', '1.0.0', now() from generate_series(1, 300) n
          returning id, org_id)
        insert into alerts (id, org_id, device_id, kind, severity, title, message)
        select new_row_id(), org_id, id, 'device_offline', 'high', 'Offline', 'Offline' from d`,
        [tenant.orgId, tenant.siteId],
      ),
    );
    const [cause] = (await causes()).data;
    expect(cause).to.include({ count: 300, deviceCount: 300 });
    expect([cause.alertIds.length, cause.devices.length]).to.deep.equal([100, 3]);
  });

  it('are those of the caller’s organizations', async () => {
    const stranger = await buildTenant(app);
    const second = await buildOrganization(app, tenant.partnerId);
    await raise(5, { deviceId: await device('OURS') });
    await raise(5, { orgId: second, deviceId: await device('THEIRS', await buildSite(app, second), second) });
    expect((await causes()).data).to.have.length(2);
    expect((await causes(`?orgId=${second}`)).data[0]).to.include({ orgId: second });
    expect((await causes('', tenant.technician)).data).to.have.length(1);
    expect((await causes('', stranger.admin)).data).to.deep.equal([]);
    expect((await causes(`?orgId=${second}`, tenant.technician)).status).to.equal(403);
    const part = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [second],
      role: SYSTEM_ROLES.partnerAdmin,
    });
    expect((await causes('', part)).data.map(({ orgId }: { orgId: string }) => orgId)).to.deep.equal([
      second,
    ]);
    expect((await causes('?orgId=x')).status).to.equal(400);
  });
});

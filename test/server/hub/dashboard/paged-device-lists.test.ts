import { expect } from 'chai';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { FeedClient } from '../../../support/feed-client.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

const PAGE = 1000;

describe('a list with more devices than one answer contains', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let client: DashboardClient;

  before(async () => {
    app = await createTestApp({ graceMs: 50 });
    tenant = await buildTenant(app);
    await asOwner(
      app.database.ownerUrl,
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'DESK-' || n, 'linux', 'Debian 12', 'x64', '1.0.0', now() from generate_series(1, 2500) n`,
      [tenant.orgId, tenant.siteId],
    );
  });
  after(async () => app.close());
  beforeEach(async () => {
    client = await connectDashboard(app, tenant.admin.token);
  });
  afterEach(() => client.close());

  const followed = async (filter: object) => {
    const shown = new FeedClient();
    const snapshot = await client.subscribe(filter);
    shown.start(snapshot.devices, snapshot);
    let taken = 0;
    const take = () => {
      while (taken < client.deltas.length) shown.take(client.deltas[taken++]!);
      return client.deltas.some(({ complete }) => complete === true);
    };
    return { snapshot, shown, take };
  };

  for (const [what, filter] of Object.entries({
    'of a scope': {},
    'of a filter': {
      conditions: { operator: 'AND', conditions: [{ field: 'osType', operator: 'equals', value: 'linux' }] },
    },
  })) {
    it(`${what} is sent in parts: the answer, then frames, the last of which is marked`, async () => {
      const { snapshot, shown, take } = await followed(filter);
      expect([snapshot.devices.length, snapshot.complete]).to.deep.equal([PAGE, false]);
      expect(snapshot.counts.total).to.equal(PAGE);
      await eventually(take, (isComplete) => isComplete);
      expect(shown.faults).to.deep.equal([]);
      expect([shown.devices.size, shown.counts?.total]).to.deep.equal([2500, 2500]);
      expect(client.deltas.at(-1)?.complete).to.equal(true);
      for (const { entered } of client.deltas) expect(entered.length).to.be.at.most(100);
    });
  }

  it('includes devices that enter, change and leave while the parts are sent', async () => {
    const [online, gone] = [await buildDevice(app, tenant.orgId), await buildDevice(app, tenant.orgId)];
    const { shown, take } = await followed({});
    const [agent] = await Promise.all([
      connectDevice(app, online.token),
      app.call('DELETE', `/devices/${gone.deviceId}`, { token: tenant.admin.token }),
    ]);
    await eventually(take, (isComplete) => isComplete);
    await eventually(
      () => take() && shown.devices.get(online.deviceId)?.status,
      (status) => status === 'online',
    );
    await eventually(
      () => take() && shown.devices.has(gone.deviceId),
      (isShown) => !isShown,
    );
    expect(shown.faults).to.deep.equal([]);
    expect([shown.devices.size, shown.counts?.total]).to.deep.equal([2501, 2501]);
    agent.close();
  });

  it('of few devices is complete in the answer and marked as such', async () => {
    const few = await buildTenant(app);
    await buildDevice(app, few.orgId);
    client.close();
    client = await connectDashboard(app, few.admin.token);
    const { devices, complete } = await client.subscribe();
    expect([devices.length, complete]).to.deep.equal([1, true]);
  });
});

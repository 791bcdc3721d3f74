import { expect } from 'chai';
import { buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('figures as OpenMetrics, of many devices', () => {
  let app: TestApp;

  before(async () => {
    app = await createTestApp();
  });
  after(async () => app.close());

  it('are refused for more devices than one answer has, and not cut off', async () => {
    const { orgId, partnerId, siteId, admin } = await buildTenant(app);
    const fill = (count: number) =>
      asOwner(
        app.database.ownerUrl,
        `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
        select new_row_id(), $1, $2, 'D-' || n, 'linux', 'Debian 12', 'x64', '1.0.0', now()
        from generate_series(1, $3::int) n`,
        [orgId, siteId, count],
      );
    await asOwner(app.database.ownerUrl, 'update partners set max_devices = null where id = $1', [partnerId]);
    await fill(10_001);
    const scrape = () => app.call('GET', '/metrics/openmetrics', { token: admin.token });
    const { status, body } = await scrape();
    expect(status).to.equal(409);
    expect(body.error).to.contain('more than 10000 devices');
    await asOwner(app.database.ownerUrl, `delete from devices where hostname = 'D-1'`);
    expect((await scrape()).status).to.equal(200);
  });
});

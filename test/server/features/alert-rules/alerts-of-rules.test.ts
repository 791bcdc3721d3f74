import { expect } from 'chai';
import { alertGround } from '../../../support/alert-rule-ground.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';

describe('the alerts of one rule', function () {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let ground: ReturnType<typeof alertGround>;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
    ground = alertGround(app);
  });
  after(async () => app.close());

  it('are listed without those of others, as many as the rule says are open', async () => {
    const device = await buildDevice(app, tenant.orgId);
    await ground.disk(device, 95);
    await ground.gone(device, 31);
    await ground.whole();
    const ruleId = await ground.ruleOf(tenant.orgId, 'disk_full');
    const { token } = tenant.admin;
    const { body } = await app.call('GET', `/alerts?ruleId=${ruleId}&status=active,acknowledged`, { token });
    expect(
      body.data.map(({ kind, deviceId }: { kind: string; deviceId: string }) => [kind, deviceId]),
    ).to.deep.equal([['disk_full', device.deviceId]]);
    const rule = await app.call('GET', `/alert-rules/${ruleId}`, { token });
    expect(rule.body.openAlerts).to.equal(body.pagination.total);
  });

  it('are none of a rule of another provider', async () => {
    const stranger = await buildTenant(app);
    const ruleId = await ground.ruleOf(tenant.orgId, 'disk_full');
    const { body } = await app.call('GET', `/alerts?ruleId=${ruleId}`, { token: stranger.admin.token });
    expect(body.data).to.deep.equal([]);
  });
});

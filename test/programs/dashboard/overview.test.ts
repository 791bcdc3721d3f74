import { expect } from 'chai';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { raisedAlert } from '../../support/raised-alert.ts';

describe('the overview', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  beforeEach(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    for (const hostname of ['FRONT-1', 'FRONT-2', 'FRONT-3', 'FRONT-4']) {
      const { deviceId, orgId } = await buildDevice(app, tenant.orgId, { hostname });
      await withSystem(app.server.database.pool, 'test', (tx) =>
        raisedAlert(tx, {
          orgId,
          deviceId,
          kind: 'device_offline',
          severity: 'high',
          title: 'The device is offline',
          message: 'It has not answered.',
        }),
      );
    }
    await withSystem(app.server.database.pool, 'test', (tx) =>
      raisedAlert(tx, {
        orgId: tenant.orgId,
        kind: 'webhook_disabled',
        severity: 'medium',
        title: 'A webhook was switched off',
        message: 'It has failed too often.',
      }),
    );
  });

  it('has a line for each cause with its next step, and lets one take note of all of it', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const dark = attention.getByRole('listitem').filter({ hasText: 'Device offline: 4 devices of' });
    await dark.getByText('FRONT-1, FRONT-2, FRONT-3 and 1 more').waitFor();
    await attention.getByRole('link', { name: 'A webhook was switched off' }).waitFor();
    expect(await attention.getByRole('listitem').count()).to.equal(2);
    await assertAccessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await assertAccessible(page);
    await page.setViewportSize({ width: 1280, height: 720 });

    await dark.getByRole('link', { name: /^Device offline/ }).click();
    await page.getByText('Alerts of all kinds').or(page.getByLabel('Alerts of all kinds')).waitFor();
    const rows = page.getByRole('row').filter({ hasText: 'The device is offline' });
    await rows.nth(3).waitFor();
    expect(await page.getByRole('row').filter({ hasText: 'A webhook' }).count()).to.equal(0);
    await assertAccessible(page);
    await page.goBack();

    await dark.getByRole('button', { name: 'Acknowledge' }).click();
    await dark.waitFor({ state: 'detached' });
    await attention.getByRole('link', { name: 'A webhook was switched off' }).click();
    await page.getByRole('dialog', { name: 'Alert' }).getByText('It has failed too often.').waitFor();
  });

  it('says to a viewer why nothing can be acknowledged', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open('/', { person: viewer });
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const button = attention.getByRole('button', { name: 'Acknowledge' }).first();
    await button.waitFor();
    expect(await button.getAttribute('aria-disabled')).to.equal('true');
  });

  it('shows how the fleet has changed in the last thirty days', async () => {
    const { app } = dashboard;
    const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
    const counted = [
      { day: day(29), devices: 2, devices_connected: 1, alerts_raised: 7 },
      { day: day(1), devices: 3, devices_connected: 3, alerts_raised: 2 },
      { day: day(0), devices: 4, devices_connected: 2, alerts_raised: 5 },
    ];
    await withSystem(app.server.database.pool, 'test', (tx) =>
      tx('fleet_days').insert(counted.map((row) => ({ org_id: tenant.orgId, ...row }))),
    );
    const page = await dashboard.open('/', { person: tenant.admin });
    const trends = page.getByRole('region', { name: 'The last 30 days' });
    await trends.getByRole('img', { name: /^Devices in service: 2 on .*, 4 on / }).waitFor();
    const alerts = trends.getByRole('img', { name: /^Alerts raised: 14 since .*, 5 of them on / });
    expect(await alerts.locator('rect').count()).to.equal(3);
    await trends.getByRole('img', { name: /^Backups failed: 0 since / }).waitFor();
    await assertAccessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await assertAccessible(page);
  });
});

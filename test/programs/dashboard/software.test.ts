import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';

describe('the page of software', () => {
  const dashboard = useDashboard();

  it('says which devices have a program, in which version, and since when', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    const { deviceId, token } = await buildDevice(app, tenant.orgId, { hostname: 'FRONT-DESK' });
    await app.call('POST', `/agents/${deviceId}/inventory`, {
      token,
      body: { software: [{ name: 'Firefox', version: '140' }], collectedAt: '2026-03-01T08:00:00Z' },
    });
    const page = await dashboard.open('/software', { person: tenant.admin });
    await page.getByRole('button', { name: 'Firefox' }).click();
    const devices = page
      .getByRole('dialog', { name: 'Firefox' })
      .getByRole('table', { name: 'Devices with Firefox' });
    await devices.getByRole('row', { name: /FRONT-DESK.*140.*(sec|now)/ }).waitFor();
    await assertAccessible(page);
    await devices.getByRole('link', { name: 'FRONT-DESK' }).click();
    await page.getByRole('heading', { level: 1, name: 'FRONT-DESK' }).waitFor();
  });
});

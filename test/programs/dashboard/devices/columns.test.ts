import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { asOwner } from '../../../support/test-postgres.ts';

describe('the columns of the list of devices', () => {
  const dashboard = useDashboard();

  it('show what summaries do not have, are sorted, searched, and part of the address', async () => {
    const { app } = dashboard;
    const tenant = await buildTenant(app);
    const made = await app.call('POST', '/custom-fields', {
      token: tenant.admin.token,
      body: { orgId: tenant.orgId, key: 'room', name: 'Room', type: 'number' },
    });
    expect(made.status).to.equal(201);
    for (const [hostname, user, room] of [
      ['ALPHA', 'ada', 12],
      ['BETA', 'grace', 3],
    ] as const) {
      const { deviceId } = await buildDevice(app, tenant.orgId, { hostname, osType: 'linux' });
      await asOwner(
        app.database.ownerUrl,
        `update devices set last_user = $2, tags = '{server}', custom_fields = $3 where id = $1`,
        [deviceId, user, { room }],
      );
    }
    const page = await dashboard.open('/devices', { person: tenant.admin });
    const rows = page.getByRole('grid', { name: 'Devices' }).getByRole('row');
    await page.getByRole('button', { name: 'Columns' }).click();
    for (const column of ['Last user', 'Tags', 'Room']) {
      await page.getByRole('checkbox', { name: column, exact: true }).check();
    }
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    await rows.filter({ hasText: 'ALPHA' }).getByText('ada').waitFor();
    await rows.filter({ hasText: 'BETA' }).getByText('server').waitFor();
    await page.getByRole('columnheader', { name: 'Room' }).click();
    await rows.nth(1).getByText('BETA').waitFor();
    await assertAccessible(page);

    // A colleague who opens the address sees the same.
    const shared = await dashboard.open(new URL(page.url()).pathname + new URL(page.url()).search, {
      person: tenant.admin,
    });
    const theirs = shared.getByRole('grid', { name: 'Devices' }).getByRole('row');
    await theirs.nth(1).getByText('BETA').waitFor();
    await shared.getByRole('textbox', { name: 'Search devices' }).fill('ada');
    await theirs.filter({ hasText: 'BETA' }).waitFor({ state: 'detached' });
    await theirs.filter({ hasText: 'ALPHA' }).getByText('12', { exact: true }).waitFor();
  });
});

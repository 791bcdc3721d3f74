import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildPerson, buildTenant } from '../../support/factories.ts';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';

/** The date and the time on the clocks of UTC, some minutes ago. */
const began = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

describe('the pages of maintenance', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let deviceId: string;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    ({ deviceId } = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'TILL-1' }));
  });

  it('plan a window with a preview, show it at its devices, end and delete it', async () => {
    const page = await dashboard.open('/maintenance', { person: tenant.admin });
    await page.getByText('No maintenance is planned').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Plan maintenance' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Patch night');
    const begin = began(10);
    await dialog.getByLabel('First day').fill(begin.slice(0, 10));
    await dialog.getByLabel('Begins at').fill(begin.slice(11, 16));
    await dialog.getByRole('combobox', { name: 'Time zone' }).click();
    await dialog.getByRole('combobox', { name: 'Time zone' }).fill('UTC');
    await page.getByRole('option', { name: 'UTC', exact: true }).click();
    await dialog.getByRole('combobox', { name: 'Happens' }).click();
    await page.getByRole('option', { name: 'Every day' }).click();
    const occurrences = dialog.getByRole('table', { name: 'The next occurrences' }).getByRole('row');
    await occurrences.nth(5).waitFor();
    expect(await occurrences.count()).to.equal(6);
    await assertAccessible(page);
    await dialog.getByRole('textbox', { name: 'Length in minutes' }).fill('2000');
    await dialog.getByText('must not be longer than the 1440 minutes').first().waitFor();
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Plan', exact: true }).click();
    await dialog.getByText('must not be longer than the 1440 minutes').first().waitFor();
    await dialog.getByRole('textbox', { name: 'Length in minutes' }).fill('60');
    await dialog.getByRole('button', { name: 'Plan', exact: true }).click();
    const row = page.getByRole('row', { name: /Patch night/ });
    await row.getByText('In progress').waitFor();
    await row.getByText('All organizations').waitFor();
    await assertAccessible(page);

    await dashboard.app.settle();
    await page.goto(`/devices/${deviceId}`);
    await page
      .getByText(/^Maintenance until/)
      .first()
      .waitFor();
    await assertAccessible(page);
    await page.goto('/devices');
    await page.getByRole('img', { name: /Maintenance until .*: Patch night/ }).waitFor();
    await assertAccessible(page);

    await page.goto('/maintenance/calendar');
    await page.getByRole('table').getByText('Patch night').first().waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Next month' }).click();
    await page.getByRole('table').getByText('Patch night').nth(20).waitFor();
    await page.getByRole('link', { name: 'Windows' }).click();

    await row.getByRole('button', { name: 'End now' }).click();
    await dialog.getByRole('button', { name: 'End now' }).click();
    await row.getByText('Scheduled').waitFor();
    await row.getByRole('button', { name: 'Change' }).click();
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Patches');
    await dialog.getByRole('combobox', { name: 'Devices' }).click();
    await page.getByRole('option', { name: 'Single devices' }).click();
    await dialog.getByRole('combobox', { name: 'Devices' }).nth(1).fill('till');
    await page.getByRole('option', { name: 'TILL-1' }).click();
    await page.keyboard.press('Tab');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const renamed = page.getByRole('row', { name: /Patches/ });
    await renamed.getByText('1 device').waitFor();
    await renamed.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No maintenance is planned').waitFor();
  });

  it('show a viewer what is planned, and say why nothing can be changed', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      role: SYSTEM_ROLES.partnerViewer,
    });
    const page = await dashboard.open('/maintenance', { person: viewer });
    const plan = page.getByRole('button', { name: 'Plan maintenance' }).first();
    await plan.waitFor();
    expect(await plan.getAttribute('aria-disabled')).to.equal('true');
    await assertAccessible(page);
  });
});

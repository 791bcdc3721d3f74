import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { newId } from '../../../src/platform/ids.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildOrganization, buildPerson, buildTenant } from '../../support/factories.ts';

const NAME = '<b>Bakery</b> & Söhne';
const LOGO =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

describe('the page of reports', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let bakery: string;
  let month: string;

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    bakery = await buildOrganization(app, tenant.partnerId, {
      name: NAME,
      created_at: new Date('2026-01-10'),
    });
    const now = new Date();
    const begin = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1));
    month = begin.toISOString().slice(0, 7);
    const device = await buildDevice(app, bakery, { hostname: 'OVEN-1' });
    await withSystem(app.server.database.pool, 'test', async (tx) => {
      await tx('devices').where({ id: device.deviceId }).update({ created_at: begin });
      await tx('partner_login_branding').insert({
        partner_id: tenant.partnerId,
        logo_url: LOGO,
        accent_color: '#aa3300',
      });
      await tx('past_maintenance').insert({
        id: newId(),
        org_id: bakery,
        begins_at: begin,
        ends_at: new Date(begin.getTime() + 7_500_000),
        device_ids: [device.deviceId],
      });
      const about = { org_id: bakery, device_id: device.deviceId };
      await tx('alerts').insert(
        Array.from({ length: 12 }, (_, index) => ({
          ...about,
          id: newId(),
          kind: `custom_${index}`,
          severity: 'high',
          status: 'resolved',
          title: 'T',
          message: 'M',
          raised_at: new Date(begin.getTime() + 3_600_000),
          resolved_at: new Date(begin.getTime() + 7_200_000),
        })),
      );
      await tx('software_changes').insert(
        Array.from({ length: 40 }, (_, index) => ({
          ...about,
          at: new Date(begin.getTime() + 3_600_000),
          change: 'installed',
          name: `<i>Title</i> ${index}`,
        })),
      );
    });
  });

  const heading = (page: Page) => page.getByRole('heading', { level: 1 });

  it('shows the month that was chosen of the customer that was chosen, and its address leads back to both', async () => {
    const page = await dashboard.open('/', { person: tenant.admin });
    await page.getByRole('link', { name: 'Reports', exact: true }).click();
    await page.getByText('Choose a customer').waitFor();
    await assertAccessible(page);
    await page.getByRole('combobox', { name: 'Customer' }).click();
    await page.getByRole('option', { name: NAME }).click();
    await page.getByText(`${NAME}, `).first().waitFor();
    await page.getByText('Monthly report by').waitFor();
    await page.getByRole('combobox', { name: 'Month' }).click();
    await page.getByRole('option').nth(2).click();
    await page.waitForURL(/month=/);
    expect(page.url()).to.contain(`org=${bakery}`);
    await page.getByText('Monthly report by').waitFor();
    const shown = (await heading(page).textContent()) ?? '';
    await page.reload();
    await page.getByRole('heading', { level: 1, name: shown }).waitFor();
    await page.goto(`/reports?org=${bakery}&month=${month}`);
    await page.getByRole('row', { name: /<i>Title<\/i> 0/ }).waitFor();
    await page.getByText('Only the first 10 of 12 are listed.').waitFor();
    await page
      .getByText('Planned maintenance is counted apart: 1 device had 2 h 5 min of it together.')
      .waitFor();
    await page.getByText(/Planned maintenance before .* was not recorded/).waitFor();
    await assertAccessible(page);
    expect(await page.getByRole('img', { name: /^Logo of/ }).count()).to.equal(1);
  });

  it('is reached from the page of the organization, which has the time zone of its months', async () => {
    const page = await dashboard.open(`/organizations/${bakery}`, { person: tenant.admin });
    await page.getByRole('button', { name: 'Change', exact: true }).first().click();
    const zone = page.getByRole('dialog').getByRole('combobox', { name: 'Time zone' });
    await zone.click();
    await zone.fill('Berlin');
    await page.getByRole('option', { name: 'Europe/Berlin' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Report', exact: true }).click();
    await page.waitForURL(/\/reports\?org=/);
    await page.getByText('by the time zone Europe/Berlin').waitFor();
    await page.getByText('Monthly report by').waitFor();
  });

  it('prints on A4 and Letter without navigation and in black on white, also with the dark theme', async () => {
    const page = await dashboard.open(`/reports?org=${bakery}&month=${month}`, {
      person: tenant.admin,
      colorScheme: 'dark',
    });
    await page.getByText('Monthly report by').waitFor();
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    expect(await page.getByRole('link', { name: 'Overview' }).isVisible()).to.equal(false);
    expect(await page.getByRole('combobox', { name: 'Customer' }).isVisible()).to.equal(false);
    expect(await page.getByRole('button', { name: 'Print or save as PDF' }).isVisible()).to.equal(false);
    expect(await page.getByRole('img', { name: /^Logo of/ }).isVisible()).to.equal(true);
    const colors = await page.evaluate<
      string[]
    >(`[...document.querySelectorAll('main h1, main dd, main td, main p')]
      .map((element) => getComputedStyle(element).color)`);
    expect(new Set(colors)).to.deep.equal(new Set(['rgb(0, 0, 0)']));
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).to.equal(
      'rgb(255, 255, 255)',
    );
    for (const format of ['A4', 'Letter'] as const) {
      const pdf = await page.pdf({ format, preferCSSPageSize: true });
      expect(pdf.subarray(0, 5).toString()).to.equal('%PDF-');
    }
  });

  it('tells a person what the role hides, and works with the keyboard', async () => {
    const { body: role } = await dashboard.app.call('POST', '/roles', {
      token: tenant.admin.token,
      body: { name: 'Devices only', scope: 'partner', permissions: ['devices:read', 'organizations:read'] },
    });
    const { partnerId } = tenant;
    const person = await buildPerson(dashboard.app, { scope: 'partner', partnerId, role: role.id });
    const page = await dashboard.open(`/reports?org=${bakery}`, { person });
    await page
      .getByText(
        /Not shown, because the role .*: Alerts, Backups, Backups of Microsoft 365, Who changed what\./,
      )
      .waitFor();
    await page.getByRole('combobox', { name: 'Month' }).focus();
    await page.keyboard.press('ArrowDown');
    await page.getByRole('option').first().waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(/month=/);
  });

  it('is sent by mail on a schedule, which is set up, paused, resumed, changed and deleted', async () => {
    const page = await dashboard.open(`/reports?org=${bakery}`, { person: tenant.admin });
    await page.getByRole('link', { name: 'Sent by mail' }).click();
    await page.getByText('No reports are sent').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New schedule' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('For the bakery');
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Create schedule' }).click();
    await dialog.getByText('must name at least one recipient').first().waitFor();
    await dialog.getByRole('combobox', { name: 'People' }).click();
    await page.getByRole('option', { name: new RegExp(tenant.admin.email) }).click();
    await page.keyboard.press('Escape');
    await dialog.getByRole('combobox', { name: 'Mail addresses' }).fill('owner@example.com');
    await page.keyboard.press('Enter');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Create schedule' }).click();
    const row = page.getByRole('row', { name: /For the bakery/ });
    await row.getByText(/^Next /).waitFor();
    await row.getByText('2 recipients').waitFor();
    await row.getByRole('button', { name: 'Pause' }).click();
    await row.getByText('Paused').waitFor();
    await row.getByRole('button', { name: 'Resume' }).click();
    await row.getByText(/^Next /).waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Change' }).click();
    await dialog.getByLabel(/^Time(?! zone)/).fill('09:15');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText(/09:15/).waitFor();
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No reports are sent').waitFor();
  });

  it('says what is wrong with a month in which the customer was not there', async () => {
    dashboard.allow(/status of 400/);
    const page = await dashboard.open(`/reports?org=${bakery}&month=2025-01`, { person: tenant.admin });
    await page.getByText('must not lie before the organization was added').waitFor();
  });
});

import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { asOwner } from '../../support/test-postgres.ts';

const DEVICES = 300;
const PROGRAMS = 10_000;

describe('a list in a browser', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    const { app } = dashboard;
    tenant = await buildTenant(app);
    const { deviceId } = await buildDevice(app, tenant.orgId, { hostname: 'AAA-FIRST' });
    const sql = (text: string, values: unknown[]) => asOwner(app.database.ownerUrl, text, values);
    await sql(
      `insert into devices (id, org_id, site_id, hostname, os_type, os_version, architecture, agent_version, enrolled_at)
      select gen_random_uuid(), $1, $2, 'DESK-' || lpad(n::text, 4, '0'), 'linux', 'Debian 12', 'x64', '1.0.0', now()
      from generate_series(1, $3) n`,
      [tenant.orgId, tenant.siteId, DEVICES - 1],
    );
    await sql(
      `insert into software_titles (org_id, name)
      select $1, 'Program ' || lpad(n::text, 5, '0') from generate_series(1, $2::int) n`,
      [tenant.orgId, PROGRAMS],
    );
    await sql(
      `insert into device_software (org_id, device_id, title_id, version)
      select org_id, $2, id, '1.' || id from software_titles where org_id = $1`,
      [tenant.orgId, deviceId],
    );
  });

  const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });
  const placeOf = (page: Page) =>
    page.evaluate<string>("document.activeElement?.getAttribute('data-place') ?? 'none'");
  /** In one task of the page, so that nothing is drawn in between. */
  const pressAtOnce = (page: Page, ...keys: string[]) =>
    page.evaluate(`for (const key of ${JSON.stringify(keys)}) {
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    }`);
  const has = (page: Page, place: string) =>
    eventually(
      () => placeOf(page),
      (found) => found === place,
    );

  it('counts every key, even if several come within one frame', async () => {
    const page = await dashboard.open('/devices?sort=name', { person: tenant.admin });
    await row(page, 'AAA-FIRST').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Devices' }).focus();
    // The first leads into the list, to the row that is active.
    await pressAtOnce(page, 'j', 'j', 'j');
    await has(page, '2');
    await pressAtOnce(page, 'j', 'j', 'ArrowDown', 'k');
    await has(page, '4');
    await pressAtOnce(page, 'End', 'k', 'k');
    await has(page, String(DEVICES - 3));
  });

  it('is found as it was left by who comes back to it: its rows, and the page', async () => {
    const page = await dashboard.open('/devices?sort=name', { person: tenant.admin });
    await row(page, 'AAA-FIRST').waitFor();
    const grid = page.getByRole('grid', { name: 'Devices' });
    const topOf = () => grid.evaluate((element: { scrollTop: number }) => element.scrollTop);
    await grid.evaluate((element: { scrollTop: number }) => {
      element.scrollTop = 4000;
    });
    const seen = row(page, 'DESK-0130');
    await seen.getByRole('link').first().click();
    await page.getByRole('heading', { level: 1, name: 'DESK-0130' }).waitFor();
    await page.goBack();
    await seen.waitFor();
    expect(await topOf()).to.equal(4000);

    await page.goto('/software?page=3');
    await row(page, 'Program 00101').waitFor();
    await page.evaluate('window.scrollTo(0, 600)');
    // Where the page was scrolled to is written down a moment later.
    await eventually(
      () => page.evaluate<number>('window.scrollY'),
      (y) => y === 600,
    );
    await page.getByRole('link', { name: 'Alerts', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor();
    await page.goBack();
    await row(page, 'Program 00101').waitFor();
    await eventually(
      () => page.evaluate<number>('window.scrollY'),
      (y) => y === 600,
    );
  });

  describe('of the software of all devices', () => {
    it('says what is to be done if there is none', async () => {
      const empty = await buildTenant(dashboard.app);
      const page = await dashboard.open('/software', { person: empty.admin });
      await page.getByText('No software was reported yet').waitFor();
      await assertAccessible(page);
      await page.getByRole('link', { name: 'All devices' }).click();
      await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    });

    it('shows one, with the versions and the devices that it has', async () => {
      const { app } = dashboard;
      const small = await buildTenant(app);
      for (const version of ['2.0', '2.0', '1.9']) {
        const { deviceId, token } = await buildDevice(app, small.orgId);
        const { status } = await app.call('POST', `/agents/${deviceId}/inventory`, {
          token,
          body: { software: [{ name: '7-Zip', version }], collectedAt: '2026-03-01T00:00:00.000Z' },
        });
        expect(status).to.equal(200);
      }
      const page = await dashboard.open('/software', { person: small.admin });
      const only = row(page, '7-Zip');
      await only.getByText('2.0 on 2 devices, 1.9 on 1 device').waitFor();
      expect(await page.getByRole('row').count()).to.equal(2);
      expect(await page.getByRole('button', { name: 'next page' }).count()).to.equal(0);
      await page.getByRole('textbox', { name: 'Search programs' }).fill('notepad');
      await page.getByText('No program has this name').waitFor();
      await page.getByRole('button', { name: 'Show all programs' }).click();
      await only.waitFor();
      expect(await page.getByRole('textbox', { name: 'Search programs' }).inputValue()).to.equal('');
      expect(new URL(page.url()).searchParams.has('q')).to.equal(false);
    });

    it('leads back to its first page from a page that it no longer has', async () => {
      const page = await dashboard.open('/software?page=300', { person: tenant.admin });
      await page.getByText('This page of the list is empty').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'First page' }).click();
      await row(page, 'Program 00001').waitFor();
    });

    it('shows ten thousand page by page, and finds one of them', async () => {
      const page = await dashboard.open('/software', { person: tenant.admin });
      await page.getByText(`1 to 50 of ${PROGRAMS.toLocaleString('en-US')}`).waitFor();
      await row(page, 'Program 00050').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'next page' }).click();
      await row(page, 'Program 00051').waitFor();
      await page.getByRole('button', { name: '200', exact: true }).click();
      await row(page, 'Program 10000').waitFor();
      expect(new URL(page.url()).searchParams.get('page')).to.equal('200');
      await page.getByRole('textbox', { name: 'Search programs' }).fill('program 0777');
      await row(page, 'Program 07777').waitFor();
      expect(new URL(page.url()).searchParams.get('page')).to.equal(null);
      expect(await page.getByRole('row').count()).to.equal(11);
    });
  });

  describe('on paper', () => {
    const endPrinting = async (page: Page) => {
      await page.emulateMedia({ media: null });
      await page.evaluate("window.dispatchEvent(new Event('afterprint'))");
    };
    const print = async (page: Page) => {
      await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
      // A browser says so before it draws the pages.
      await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    };

    it('has all of its rows, and nothing that can only be clicked', async () => {
      const page = await dashboard.open('/devices?sort=name', { person: tenant.admin });
      await row(page, 'AAA-FIRST').waitFor();
      expect(await page.getByRole('row').count()).to.be.lessThan(DEVICES);
      await print(page);
      expect(await page.getByRole('row').count()).to.equal(DEVICES + 1);
      expect(await page.getByRole('navigation', { name: 'Main' }).isVisible()).to.equal(false);
      expect(await page.locator('main button:visible').count()).to.equal(0);
      await endPrinting(page);
      await eventually(
        () => page.getByRole('row').count(),
        (count) => count < DEVICES,
      );
    });

    it('is a report with its question, exact times and dark text', async () => {
      const page = await dashboard.open('/audit/reports?report=security&from=2026-01-01', {
        person: tenant.admin,
        timezoneId: 'UTC',
        colorScheme: 'dark',
      });
      await row(page, 'User login').first().waitFor();
      const question = page.getByText(
        /Security events · All organizations · from 2026-01-01 · Printed .*\d{4}/,
      );
      expect(await question.isVisible()).to.equal(false);
      expect(await page.locator('html').getAttribute('data-mantine-color-scheme')).to.equal('dark');
      await print(page);
      await question.waitFor();
      expect(await page.locator('html').getAttribute('data-mantine-color-scheme')).to.equal('light');
      for (const hidden of ['Pages of the audit trail', 'Main']) {
        expect(await page.getByRole('navigation', { name: hidden }).isVisible(), hidden).to.equal(false);
      }
      for (const field of ['From', 'To']) {
        expect(await page.getByLabel(field).isVisible(), field).to.equal(false);
      }
      const time = await page.evaluate<string>(
        "getComputedStyle(document.querySelector('table time'), '::after').content",
      );
      expect(time).to.match(/\d{4}/);
      await endPrinting(page);
      await page.locator('html[data-mantine-color-scheme=dark]').waitFor({ state: 'attached' });
    });
  });
});

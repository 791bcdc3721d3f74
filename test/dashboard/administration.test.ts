import { expect } from 'chai';
import { assertAccessible, useDashboard } from '../support/browser.ts';
import { buildTenant } from '../support/factories.ts';

/** Pages that the story below does not come through. */
const OTHERS = [
  ['/audit/reports', 'Audit reports'],
  ['/audit/chain', 'Audit chain'],
  ['/settings/branding', 'Branding'],
  ['/settings/retention', 'Retention'],
  ['/settings/alerts', 'Alert thresholds'],
  ['/settings/security', 'Security settings'],
] as const;

describe('the pages of administration', () => {
  const dashboard = useDashboard();
  let tenant: Awaited<ReturnType<typeof buildTenant>>;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
  });

  it('change settings, which the audit trail shows with what was before', async () => {
    const page = await dashboard.open('/settings', { person: tenant.admin });
    await page.getByRole('textbox', { name: 'Contact person' }).fill('Kim Contact');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await assertAccessible(page);

    await page.getByRole('link', { name: 'Custom fields' }).click();
    await page.getByRole('button', { name: 'New field' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Inventory number');
    const organization = dialog.getByRole('combobox', { name: 'Organization' });
    if ((await organization.count()) > 0 && (await organization.inputValue()) === '') {
      await organization.click();
      await page.getByRole('option').first().click();
    }
    await dialog.getByRole('button', { name: 'Create field' }).click();
    await page.getByRole('cell', { name: 'inventory_number' }).waitFor();
    await assertAccessible(page);

    await page.getByRole('link', { name: 'Audit', exact: true }).click();
    await page.getByRole('textbox', { name: 'Search' }).fill('custom_field.create');
    const entry = page.getByRole('table', { name: 'Audit entries' }).getByRole('link').first();
    await page.waitForURL(/q=custom_field/);
    await entry.click();
    await page.getByText('Place in the chain').waitFor();
    await assertAccessible(page);
  });

  it('say how the server is', async () => {
    const page = await dashboard.open('/system', { person: tenant.admin });
    await page.getByText('The server is ready').waitFor();
    await page
      .getByRole('row', { name: /Database/ })
      .getByText('Works')
      .waitFor();
    await assertAccessible(page);
  });

  it('lead from a preset to an identity provider that is not active yet', async () => {
    const page = await dashboard.open('/settings/sso', { person: tenant.admin });
    await page.getByText('No identity provider').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'New provider' }).first().click();
    await page.getByRole('combobox', { name: 'Provider' }).click();
    await page.getByRole('option', { name: 'Okta', exact: true }).click();
    await page.getByRole('textbox', { name: 'Your domain' }).waitFor();
    await assertAccessible(page);
  });

  it('can be used by everybody', async () => {
    const page = await dashboard.open('/audit', { person: tenant.admin });
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    for (const [address, title] of OTHERS) {
      await page.goto(address);
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      await page.getByRole('progressbar').waitFor({ state: 'detached' });
      await assertAccessible(page);
    }
    expect(await page.title()).to.contain('Muster');
  });
});

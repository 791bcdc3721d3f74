import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import { advanceRollouts } from '../../../src/features/agent-upgrades/rollout.work.ts';
import { enableSecondFactor } from '../../support/auth/second-factor-support.ts';
import { query, upload } from '../../support/releases/release-support.ts';
import { buildFleet, recordAttempts, stopOwnRounds } from '../../support/agent-upgrades/rollout-fleet.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildDevice, buildPerson, buildTenant, giveSecondFactor } from '../../support/factories.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';
import { startOidcProvider, type OidcProvider } from '../../support/oidc-provider.ts';
import { quietLog } from '../../support/quiet-log.ts';
import { asOwner } from '../../support/test-postgres.ts';

/** One pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

describe('the pages of administration', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-administration-'));
  const dashboard = useDashboard({
    outbound: { ca: TEST_AUTHORITY },
    env: {
      SSO_ALLOWED_PRIVATE_CIDRS: '127.0.0.0/8',
      TRUST_PROXY_HEADERS: 'true',
      TRUSTED_PROXY_CIDRS: '127.0.0.1',
      AGENT_AUTO_PROMOTE: 'false',
      DATA_DIR: dataDir,
    },
  });
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let idp: OidcProvider | undefined;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    idp = await startOidcProvider();
  });
  after(async () => {
    await idp?.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('lead from a person to what that person did', async () => {
    const { technician } = tenant;
    const { deviceId } = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'TILL-9' });
    const { status } = await dashboard.app.call('PATCH', `/devices/${deviceId}`, {
      token: technician.token,
      body: { displayName: 'By the door' },
    });
    expect(status).to.equal(200);
    const page = await dashboard.open('/people', { person: tenant.admin });
    const row = page.getByRole('row').filter({ hasText: technician.email });
    await row.getByRole('link', { name: /^What they did/ }).click();
    await page.getByRole('row').filter({ hasText: technician.email }).filter({ hasText: 'TILL-9' }).waitFor();
    const others = page.getByRole('row').filter({ hasText: tenant.admin.email });
    expect(await others.count()).to.equal(0);
  });

  it('save the company and the allowed addresses, and keep people from locking themselves out', async () => {
    const page = await dashboard.open('/settings', {
      person: tenant.admin,
      // As a proxy says it.
      extraHTTPHeaders: { 'x-forwarded-for': '198.51.100.7' },
    });
    const company = page.getByRole('form', { name: 'Company' });
    await company.getByRole('textbox', { name: 'Contact person' }).fill('Kim Contact');
    await choose(page, 'Time zone', 'Europe/Vienna');
    await choose(page, 'Business hours', 'Own hours');
    await company.getByRole('switch', { name: 'Open on Monday' }).press('Space');
    await company.getByLabel('Monday, from').fill('08:30');
    // As on every form, Enter saves.
    await company.getByRole('textbox', { name: 'Name', exact: true }).press('Enter');
    await page.getByText('Saved.').waitFor();
    await page.reload();
    await shows(company.getByRole('textbox', { name: 'Contact person' }), 'Kim Contact');
    await shows(company.getByRole('combobox', { name: 'Time zone' }), 'Europe/Vienna');
    await shows(company.getByLabel('Monday, from'), '08:30');

    await page.getByRole('link', { name: 'Security' }).click();
    const list = page.getByRole('textbox', { name: 'Allowed addresses' });
    dashboard.allow(/status of 40[09]/);
    await list.fill('nonsense');
    await page.getByRole('button', { name: 'Save list' }).click();
    await page.getByText('“nonsense”').waitFor();
    await list.fill('203.0.113.0/24');
    await page.getByRole('button', { name: 'Save list' }).click();
    await page.getByText('You would lock yourself out').waitFor();
    await page.getByRole('button', { name: 'Add it' }).click();
    await page.getByRole('button', { name: 'Save list' }).click();
    await page.getByText('Saved.').waitFor();
    await page.reload();
    await shows(list, '203.0.113.0/24\n198.51.100.7');
    await list.fill('');
    await page.getByRole('button', { name: 'Allow all addresses' }).click();
    await page.getByText('Saved.').waitFor();
  });

  it('show how the sign-in page will look, and then it looks so', async () => {
    const page = await dashboard.open('/settings/branding', { person: tenant.admin });
    const preview = page.getByRole('region', { name: 'Preview of the sign-in page' });
    await page.getByRole('textbox', { name: 'Accent color' }).fill('#1a2b3c');
    await page.getByRole('textbox', { name: 'Headline' }).fill('Welcome to Acme');
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: PNG });
    await preview.getByText('Welcome to Acme').waitFor();
    await preview.getByRole('img', { name: 'The logo' }).waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await page.reload();
    await preview.getByText('Welcome to Acme').waitFor();
    await preview.getByRole('img', { name: 'The logo' }).waitFor();
    await page.getByRole('button', { name: 'Remove the logo' }).click();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
  });

  it('save how long records are kept', async () => {
    const page = await dashboard.open('/settings', { person: tenant.admin });
    await page.getByRole('link', { name: 'Retention' }).click();
    const events = page.getByRole('textbox', { name: 'Stored events' });
    await events.fill('41');
    const full = page.getByRole('combobox', { name: 'When the stored logs reach their budget' });
    await shows(full, 'Refuse new logs');
    await full.click();
    await page.getByRole('option', { name: 'Remove the oldest logs, by whole days' }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').waitFor();
    const audit = page.getByRole('textbox', { name: 'Days that audit entries are kept' });
    await audit.fill('444');
    await page.getByRole('button', { name: 'Save audit retention' }).click();
    await page.getByText('The retention is saved.').waitFor();
    await page.reload();
    await shows(events, '41 days');
    await shows(full, 'Remove the oldest logs, by whole days');
    const kept = await dashboard.app.call(
      'GET',
      `/orgs/organizations/${tenant.orgId}/log-retention`,
      tenant.admin,
    );
    expect(kept.body).to.include({ eventDays: 41, whenFull: 'remove_oldest' });
    await shows(audit, '444');
  });

  it('change custom fields, which the audit trail shows with what was before', async () => {
    const page = await dashboard.open('/settings/custom-fields', { person: tenant.admin });
    await page.getByRole('button', { name: 'New field' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Inventory number');
    await dialog.getByRole('button', { name: 'Create field' }).click();
    const row = page.getByRole('row').filter({ hasText: 'inventory_number' });
    await row.getByRole('button', { name: 'Change' }).click();
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Number');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('Number', { exact: true }).waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No custom fields').waitFor();

    await page.getByRole('link', { name: 'Audit', exact: true }).click();
    await page.getByRole('textbox', { name: 'Search' }).fill('custom_field');
    const entries = page.getByRole('table', { name: 'Audit entries' });
    await page.waitForURL(/q=custom_field/);
    await entries.getByRole('link', { name: 'Custom field update' }).click();
    await page.getByText('Place in the chain').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Close the entry' }).click();
    await choose(page, 'Category', 'Authentication');
    await page.getByText('No entry matches').waitFor();
    await page.getByRole('textbox', { name: 'Search' }).fill('login');
    await entries.getByRole('link', { name: 'User login' }).first().waitFor();
  });

  it('verify the audit chains, and lead to the entry that a person has changed', async () => {
    const { app } = dashboard;
    const { orgId, admin } = tenant;
    await app.call('POST', '/orgs/sites', { token: admin.token, body: { orgId, name: 'Harbour' } });
    await app.server.chainWriter.flush();
    const page = await dashboard.open('/audit/chain', { person: admin });
    const chains = page.getByRole('table', { name: 'Verified chains' });
    await page.getByRole('button', { name: 'Verify now' }).click();
    await page.getByText('2 of 2 verified, 0 with a fault').waitFor();
    expect(await chains.getByText('Intact').count()).to.equal(2);

    // Somebody with every right on the database, but without the key that signs.
    const { ownerUrl } = app.database;
    await asOwner(ownerUrl, 'alter table audit_logs disable trigger user');
    const [changed] = await asOwner<{ id: string; seq: string }>(
      ownerUrl,
      `update audit_logs set error_message = 'Nothing.' where org_id = $1 and action = 'site.create' returning id, seq`,
      [orgId],
    );
    await page.getByRole('button', { name: 'Verify now' }).click();
    await page.getByText('2 of 2 verified, 1 with a fault').waitFor();
    const broken = chains.getByRole('row').filter({ hasText: 'Broken' });
    await broken.getByText(`Entry ${changed?.seq}: its content does not match its checksum.`).waitFor();
    await assertAccessible(page);
    await broken.getByRole('link', { name: 'Show the entry' }).click();
    await page.getByRole('dialog', { name: 'Audit entry' }).getByText('Nothing.').waitFor();
    expect(new URL(page.url()).searchParams.get('entry')).to.equal(changed?.id);
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

  it('lead from its kind to an identity provider that is set up, tested, activated and deleted', async () => {
    const page = await dashboard.open('/settings/sso', { person: tenant.admin, isProven: true });
    dashboard.allow(/status of 40\d/);
    await page.getByText('No identity provider').waitFor();
    await page.getByRole('button', { name: 'New provider' }).first().click();
    const dialog = page.getByRole('dialog');
    await choose(page, 'Provider', 'Okta');
    await dialog.getByRole('textbox', { name: 'Your domain' }).waitFor();
    await assertAccessible(page);
    await choose(page, 'Provider', 'Another, by OpenID Connect');
    await choose(page, 'Who signs in by it', 'Your own people');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Acme');
    await dialog.getByRole('textbox', { name: 'Issuer' }).fill(idp?.issuer ?? '');
    await dialog.getByRole('textbox', { name: 'Client ID' }).fill('muster');
    await dialog.getByLabel('Client secret').fill('hidden');
    await dialog.getByRole('button', { name: 'Create provider' }).click();

    const settings = page.getByRole('form', { name: 'Settings of the provider' });
    await shows(settings.getByRole('textbox', { name: 'Issuer' }), idp?.issuer ?? '');
    await settings.getByRole('textbox', { name: 'Name', exact: true }).fill('Acme sign-in');
    await settings.getByRole('textbox', { name: 'Mail domains' }).fill('acme.example');
    await choose(page, 'Role of new accounts', 'Partner Viewer');
    await settings.getByRole('button', { name: 'Save' }).click();
    await settings.getByText('Saved.').waitFor();
    await page.reload();
    await shows(settings.getByRole('textbox', { name: 'Name', exact: true }), 'Acme sign-in');
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await page.getByText('The provider is ready to be activated').waitFor();
    const enforcement = page.getByRole('form', { name: 'Enforcement' });
    await enforcement
      .getByRole('switch', { name: 'Two-factor authentication at the identity provider' })
      .press('Space');
    await enforcement.getByRole('button', { name: 'Save' }).click();
    await enforcement.getByText('Saved.').waitFor();
    await page.getByRole('button', { name: 'Activate' }).click();
    await dialog.getByRole('button', { name: 'Activate' }).click();
    await page.getByRole('button', { name: 'Deactivate' }).waitFor();
    await page.reload();
    await enforcement
      .getByRole('switch', { name: 'Two-factor authentication at the identity provider', checked: true })
      .waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Delete the provider' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No identity provider').waitFor();

    await page.getByRole('button', { name: 'New domain' }).click();
    await dialog.getByRole('textbox', { name: 'Domain' }).fill('acme.example');
    await dialog.getByRole('button', { name: 'Create domain' }).click();
    const row = page.getByRole('row').filter({ hasText: 'acme.example' });
    await row.getByText('Pending').waitFor();
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No domains').waitFor();
  });

  it('start a rollout, which halts by itself and says why, and is resumed, paused and aborted', async () => {
    const { app } = dashboard;
    const person = await buildPerson(app, { scope: 'system' });
    const factor = await enableSecondFactor(app, person);
    const admin = await giveSecondFactor(app, person);
    await stopOwnRounds(app);
    await upload({ app, dataDir, admin, close: async () => {} }, { version: '1.1.0' });
    const devices = await buildFleet(app, { size: 20 });
    dashboard.allow(/status of 403/);
    const page = await dashboard.newPage();
    // The dialog that asks for the code is loaded after the page, which may be refused before.
    const refused = page.waitForResponse((response) => response.status() === 403);
    await page.route('**/overlays-*.js', async (route) => {
      await refused;
      await route.continue();
    });
    await page.goto(`/agents?tab=rollouts${await app.server.signInFragment(admin.id)}`);
    await page.getByRole('textbox', { name: 'Code' }).fill(factor.code());
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByRole('button', { name: 'New rollout' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New rollout' });
    await choose(page, 'Version', '1.1.0');
    await dialog.getByRole('textbox', { name: 'Shares of the waves' }).fill('50, 50');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Start the rollout' }).click();
    const drawer = page.getByRole('dialog', { name: 'Rollout', exact: true });
    await drawer.getByRole('row').nth(2).waitFor();

    const rolloutId = new URL(page.url()).searchParams.get('rollout') ?? '';
    const reached = await query<{ id: string }>(
      app,
      `select d.id from devices d, agent_rollouts r
      where r.id = ? and (rollout_place(r.id, d.id) < 5000 or d.id = any(r.first_devices))`,
      [rolloutId],
    );
    const failing = devices.filter(({ id }) => reached.some((each) => each.id === id)).slice(0, 3);
    const at = new Date();
    await recordAttempts(
      app,
      failing.map((device) => ({ rolloutId, device, state: 'failed' as const, at })),
    );
    await advanceRollouts({ db: app.server.database.jobPool, log: quietLog }, { now: at, isWhole: false });
    await page.reload();
    const reason = drawer.getByRole('alert').filter({ hasText: '3 devices failed one after another' });
    await reason.waitFor();
    expect(await reason.getByRole('link').count(), 'each device that failed').to.equal(3);
    await assertAccessible(page);
    await drawer.getByRole('button', { name: 'Resume' }).click();
    await drawer.getByText(/^Was halted/).waitFor();
    await drawer.getByRole('button', { name: 'Pause' }).click();
    await drawer.getByRole('button', { name: 'Resume' }).click();
    await drawer.getByRole('button', { name: 'Pause' }).waitFor();
    await assertAccessible(page);
    await drawer.getByRole('button', { name: 'Abort' }).click();
    await page
      .getByRole('dialog', { name: 'Abort the rollout' })
      .getByRole('button', { name: 'Abort' })
      .click();
    await drawer.getByText('Aborted', { exact: true }).waitFor();
  });
});

/** Chooses in a field that offers a list. */
async function choose(page: Page, name: string, option: string): Promise<void> {
  const field = page.getByRole('combobox', { name, exact: true });
  await field.click();
  if (await field.isEditable()) await field.fill(option);
  await page.getByRole('option', { name: option, exact: true }).click();
}

const shows = (field: Locator, value: string): Promise<string> =>
  eventually(
    () => field.inputValue(),
    (shown) => shown === value,
  );

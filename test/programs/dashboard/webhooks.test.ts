import { expect } from 'chai';
import { raiseAlert } from '../../../src/features/alerts/index.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { startReceiver } from '../../support/webhooks/webhook-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { buildTenant } from '../../support/factories.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';

describe('the pages of webhooks', () => {
  const dashboard = useDashboard({
    outbound: { ca: TEST_AUTHORITY },
    env: { WEBHOOK_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32' },
    webhooks: { everyMs: 20 },
  });
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    receiver = await startReceiver();
  });
  after(async () => receiver.stop());

  it('make a webhook, show its secret once, test it, and replay what failed', async () => {
    const page = await dashboard.open('/settings/webhooks', { person: tenant.admin });
    await page.getByText('No webhooks').waitFor();
    await page.getByRole('button', { name: 'New webhook' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Tickets');
    await dialog.getByRole('textbox', { name: 'URL' }).fill('https://10.0.0.1/');
    await dialog.getByRole('checkbox', { name: 'alert.raised' }).check();
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Create webhook' }).click();
    await dialog.getByText('The server at this URL could not be reached.').first().waitFor();
    await dialog.getByRole('textbox', { name: 'URL' }).fill(receiver.url('/tickets'));
    await dialog.getByRole('button', { name: 'Create webhook' }).click();
    await page.getByText('The secret is shown only now').waitFor();
    expect(await page.getByLabel('The secret', { exact: true }).textContent()).to.match(/^whsec_/);
    await page
      .getByRole('row', { name: /Tickets/ })
      .getByText('All organizations')
      .waitFor();
    await assertAccessible(page);

    await page.getByRole('link', { name: 'Tickets' }).click();
    await page.getByText('Nothing was sent yet').waitFor();
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('The receiver took the test').waitFor();

    receiver.status('/tickets', 410);
    await withSystem(dashboard.app.server.database.pool, 'test data', (tx) =>
      raiseAlert(tx, {
        orgId: tenant.orgId,
        kind: 'a_test',
        severity: 'low',
        title: 'Test',
        message: 'Test.',
      }),
    );
    await eventually(
      () => receiver.at('/tickets'),
      (got) => got.length === 2,
    );
    await page.reload();
    await page.getByText('The server has disabled this webhook').waitFor();
    await page
      .getByRole('row', { name: /alert\.raised/ })
      .getByText('Failed')
      .waitFor();
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await dialog.getByText('said 410').waitFor();
    await dialog.getByLabel('Data of the event').getByText('a_test').waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Escape');

    receiver.status('/tickets', 200);
    await page.getByRole('button', { name: 'Change' }).click();
    await dialog.getByRole('switch', { name: 'Enabled' }).press('Space');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Active', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Replay', exact: true }).first().click();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await page
      .getByRole('row', { name: /alert\.raised/ })
      .getByText('Delivered')
      .waitFor();
    await page.getByRole('button', { name: 'Replace the secret' }).click();
    await dialog.getByRole('button', { name: 'Replace' }).click();
    await page.getByText('The secret is shown only now').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No webhooks').waitFor();
  });

  it('say why to a person who may not see them', async () => {
    const page = await dashboard.open('/settings/webhooks', { person: tenant.technician });
    await page.getByText('You may not see this').waitFor();
    await assertAccessible(page);
  });
});

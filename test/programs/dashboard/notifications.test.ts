import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import { raiseAlerts } from '../../../src/features/alerts/index.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildDevice, buildTenant } from '../../support/factories.ts';
import { TEST_AUTHORITY } from '../../support/https-server.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { createMailbox, type Mailbox } from '../../support/mailbox.ts';
import { startReceivers } from '../../support/notifications/receivers.ts';
import { asOwner } from '../../support/test-postgres.ts';

const mailbox: Mailbox = await createMailbox();

describe('the pages of notifications', () => {
  const dashboard = useDashboard({
    outbound: { ca: TEST_AUTHORITY },
    env: { WEBHOOK_ALLOWED_PRIVATE_CIDRS: '127.0.0.1/32', DATA_DIR: mailbox.dataDir },
    notifications: { everyMs: 250 },
  });
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let receivers: Awaited<ReturnType<typeof startReceivers>>;
  let device: { deviceId: string };

  before(async () => {
    tenant = await buildTenant(dashboard.app);
    const { ownerUrl } = dashboard.app.database;
    await asOwner(ownerUrl, `update organizations set name = 'Northway' where id = $1`, [tenant.orgId]);
    await asOwner(ownerUrl, `update users set name = 'Anna Berger' where id = $1`, [tenant.admin.id]);
    device = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-DESK' });
    receivers = await startReceivers();
  });
  after(async () => {
    await receivers.stop();
    await mailbox.remove();
  });

  const rowOf = (page: Page, name: string | RegExp): Locator =>
    page.getByRole('row').filter({ hasText: name });

  it('say that nobody is told, and set up a channel and a policy by one action', async () => {
    const page = await dashboard.open('/notifications', { person: tenant.admin });
    await page.getByText('Nobody is told of alerts').waitFor();
    await page.getByRole('button', { name: 'Tell somebody by mail' }).click();
    const dialog = page.getByRole('dialog');
    const address = dialog.getByRole('textbox', { name: 'Address' });
    dashboard.allow(/status of 400/);
    await address.fill('nonsense');
    await dialog.getByRole('button', { name: 'Create channel and policy' }).click();
    await dialog.locator('[aria-invalid=true]').waitFor();
    await address.fill('helpdesk@example.com');
    await dialog.getByRole('button', { name: 'Create channel and policy' }).click();
    await page
      .getByText(
        'Critical and high alerts of all organizations: Mail to helpdesk@example.com at once; again each hour until somebody acknowledges.',
      )
      .waitFor();
    await assertAccessible(page);
  });

  it('make a channel of Slack, whose address is never shown again, and say what came of a test', async () => {
    const page = await dashboard.open('/notifications/channels', { person: tenant.admin });
    await rowOf(page, 'helpdesk@example.com').getByText('Nothing sent yet').waitFor();
    await page.getByRole('button', { name: 'New channel' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Slack of operations');
    await choose(page, dialog.getByRole('combobox', { name: 'Type' }), 'Slack');
    await dialog.getByText('In Slack: Apps › Incoming Webhooks').waitFor();
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    const url = dialog.locator('input[type=password]');
    await url.fill('https://10.0.0.1/');
    await dialog.getByRole('button', { name: 'Create channel' }).click();
    await dialog.getByText('The server at this URL could not be reached.').first().waitFor();
    await url.fill(receivers.url('/slack/operations'));
    await dialog.getByRole('button', { name: 'Create channel' }).click();

    const row = rowOf(page, 'Slack of operations');
    await row.getByText('Address kept secret').waitFor();
    await row.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('“Slack of operations” took the test message').waitFor();
    expect(receivers.at('/slack/operations')).to.have.length(1);
    await row.getByText('Works').waitFor();
    receivers.status('/slack/operations', 404);
    await row.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('The test of “Slack of operations” failed').waitFor();
    await row.getByText('Failing').waitFor();
    await assertAccessible(page);
    receivers.asUsual('/slack/operations');

    // What is stored is not in the dialog, and stays when only the name is changed.
    await row.getByRole('button', { name: 'Change' }).click();
    await dialog.getByText('Leave it empty to keep it.').waitFor();
    expect(await url.inputValue()).to.equal('');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Slack of the night');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await rowOf(page, 'Slack of the night').waitFor();

    dashboard.allow(/status of 409/);
    await rowOf(page, 'helpdesk@example.com').getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByText('The policy "Critical and high alerts" uses this channel').waitFor();
  });

  it('let a policy be made, changed and moved by keys alone', async () => {
    const page = await dashboard.open('/notifications', { person: tenant.admin });
    await page.getByText('Critical and high alerts of all organizations').waitFor();
    const keys = new Keyboard(page);
    await keys.use(page.getByRole('button', { name: 'New policy' }));
    const dialog = page.getByRole('dialog');
    await keys.fill(dialog.getByRole('textbox', { name: 'Name' }), 'At night');
    const [first, second] = [1, 2].map((step) => dialog.getByRole('group', { name: `Step ${step}` }));
    if (first === undefined || second === undefined) throw new Error('There are two steps.');
    await keys.choose(first.getByRole('combobox', { name: 'Channels' }), 'Slack of the night');
    await keys.use(dialog.getByRole('button', { name: 'Add a step' }));
    await keys.choose(second.getByRole('combobox', { name: 'People' }), 'Anna Berger');
    await assertAccessible(page);
    await keys.use(dialog.getByRole('button', { name: 'Create policy' }));
    const row = rowOf(page, 'At night');
    await row
      .getByText('Slack of the night at once, then Anna Berger by mail after 15 minutes; again each hour')
      .waitFor();

    const up = row.getByRole('button', { name: 'Move “At night” up' });
    await keys.use(up);
    await page.getByText('“At night” is now at place 1.').waitFor();
    await keys.hasFocus(up);
    const down = row.getByRole('button', { name: 'Move “At night” down' });
    await keys.use(down);
    await page.getByText('“At night” is now at place 2.').waitFor();
    await keys.hasFocus(down);
    await keys.use(up);
    await page.getByText('“At night” is now at place 1.').waitFor();

    await keys.use(row.getByRole('button', { name: 'Disable' }));
    await row.getByText('Disabled', { exact: true }).waitFor();
    await keys.use(row.getByRole('button', { name: 'Enable' }));
    await row.getByText('Disabled', { exact: true }).waitFor({ state: 'detached' });

    await keys.use(row.getByRole('button', { name: 'Change' }));
    await keys.toggle(dialog.getByRole('switch', { name: 'Only at certain hours' }));
    await keys.fill(second.getByRole('textbox', { name: 'After' }), '0');
    dashboard.allow(/status of 400/);
    await keys.use(dialog.getByRole('button', { name: 'Save' }));
    await dialog.getByText('must be later than the step before it').first().waitFor();
    await keys.fill(second.getByRole('textbox', { name: 'After' }), '30');
    await keys.use(dialog.getByRole('button', { name: 'Save' }));
    await row.getByText('if raised Monday to Friday, 08:00 to 18:00').waitFor();
  });

  it('show who would be told of an alert, when, and why others would not', async () => {
    const page = await dashboard.open('/notifications', { person: tenant.admin });
    const simulator = page.getByRole('region', { name: 'Simulator' });
    await choose(page, simulator.getByRole('combobox', { name: 'Raised' }), 'Sunday');
    await simulator.getByRole('button', { name: 'Show who is told' }).click();
    await simulator.getByText('“Critical and high alerts” takes it').waitFor();
    await simulator.getByText('At night: It is for other hours.').waitFor();
    await simulator.getByText('At once').waitFor();
    await simulator.getByText('Mail to helpdesk@example.com').first().waitFor();
    await assertAccessible(page);
    await choose(page, simulator.getByRole('combobox', { name: 'Severity' }), 'Low');
    await simulator.getByRole('button', { name: 'Show who is told' }).click();
    await simulator.getByText('Nobody is told').waitFor();
  });

  it('show what was sent, and with the alert what has happened with it', async () => {
    const [id = ''] = await withSystem(dashboard.app.server.database.pool, 'test data', (tx) =>
      raiseAlerts(tx, [
        {
          orgId: tenant.orgId,
          deviceId: device.deviceId,
          kind: 'disk_full',
          severity: 'critical',
          title: 'Drive C: is full',
          message: 'There are 4 GiB left.',
        },
      ]),
    );
    const page = await dashboard.open('/notifications/log', { person: tenant.admin });
    // The list is read again by itself.
    await rowOf(page, 'Drive C: is full').getByText('Sent', { exact: true }).first().waitFor();
    await page.getByRole('checkbox', { name: 'Failed' }).press('Space');
    await page.getByText('No such messages').waitFor();
    await page.getByRole('button', { name: 'Show all messages' }).click();
    await assertAccessible(page);
    await page.getByRole('link', { name: 'Drive C: is full' }).first().click();
    expect(new URL(page.url()).searchParams.get('alert')).to.equal(id);

    const alert = page.getByRole('dialog', { name: 'Alert' });
    await alert.getByRole('link', { name: 'FRONT-DESK' }).waitFor();
    await alert.getByText('was told').first().waitFor();
    await alert.getByRole('textbox', { name: 'Note' }).fill('  On my way with a new disk.  ');
    await alert.getByRole('button', { name: 'Acknowledge' }).click();
    await alert.getByText('Acknowledged by you').waitFor();
    await alert.getByRole('cell', { name: 'On my way with a new disk.', exact: true }).waitFor();
    expect(await alert.getByRole('textbox', { name: 'New note' }).inputValue()).to.equal('');
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    await alert.waitFor({ state: 'detached' });

    // As a message leads there.
    await page.goto(`/alerts?alert=${id}`);
    await alert.getByText('Acknowledged by you').waitFor();
    dashboard.allow(/status of 404/);
    await page.goto('/alerts?alert=00000000-0000-4000-8000-000000000000');
    await alert.getByRole('alert').waitFor();
  });

  it('let everybody say where and when they are told', async () => {
    const page = await dashboard.open('/profile', { person: tenant.admin });
    const panel = page.getByRole('region', { name: 'Notifications' });
    await panel.getByText('Of every severity').waitFor();
    await panel.getByRole('button', { name: 'Change the notifications' }).click();
    const dialog = page.getByRole('dialog');
    dashboard.allow(/status of 400/);
    await dialog.getByRole('textbox', { name: 'Telephone' }).fill('call me');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('must be a telephone number').first().waitFor();
    await dialog.getByRole('textbox', { name: 'Telephone' }).fill('+43 1 234');
    await dialog.getByRole('checkbox', { name: 'Critical' }).press('Space');
    await dialog.getByRole('switch', { name: /^Quiet hours/ }).press('Space');
    await dialog.getByRole('switch', { name: 'Critical alerts are sent in quiet hours' }).press('Space');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Only critical').waitFor();
    await panel.getByText('Every day, 22:00 to 07:00 of the next day').waitFor();
    await panel.getByText('Nothing is sent').waitFor();
  });

  it('take an address of one’s own once the code that was mailed to it is entered', async () => {
    const page = await dashboard.open('/profile', { person: tenant.technician });
    const panel = page.getByRole('region', { name: 'Notifications' });
    await panel.getByText(`${tenant.technician.email}, as of your account`).waitFor();
    await panel.getByRole('button', { name: 'Change the notifications' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Address' }).fill('on-call@example.com');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await panel.getByText('Verify your address').waitFor();
    await panel.getByText(`${tenant.technician.email}, as of your account`).waitFor();
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    await panel.getByRole('textbox', { name: 'Code' }).fill('0000 0000');
    await panel.getByRole('button', { name: 'Verify the address' }).click();
    await panel.getByText('This is not the newest code').first().waitFor();
    await panel.getByRole('button', { name: 'Mail a new code' }).click();
    await panel.getByText('A new code was mailed').waitFor();
    const mail = await mailbox.newest('on-call@example.com', 2);
    await panel.getByRole('textbox', { name: 'Code' }).fill(/^(\d{4} \d{4})\r?$/m.exec(mail)?.[1] ?? '');
    await panel.getByRole('button', { name: 'Verify the address' }).click();
    await panel.getByRole('cell', { name: 'on-call@example.com', exact: true }).waitFor();
    expect(await panel.getByText('Verify your address').count()).to.equal(0);
  });

  it('say to a person who may only read why they can change nothing, and claim nothing about the provider', async () => {
    const page = await dashboard.open('/notifications', { person: tenant.technician });
    await page.getByText('There are no policies of your own').waitFor();
    const action = page.getByRole('button', { name: 'New policy' });
    expect(await action.getAttribute('aria-description')).to.include('organizations:write');
    await assertAccessible(page);
    await page.getByRole('link', { name: 'Channels' }).click();
    await page.getByText('No channels yet').waitFor();
  });
});

async function choose(page: Page, field: Locator, option: string): Promise<void> {
  await field.click();
  await page.getByRole('option', { name: option, exact: true }).click();
}

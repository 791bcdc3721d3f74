import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { SYSTEM_ROLES } from '../../../src/features/users/index.ts';
import {
  buildCloudTenant,
  type CloudFixture,
  connectionOf,
  startMicrosoft,
} from '../../support/cloud-backup/cloud-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildPerson, buildTenant, giveSecondFactor } from '../../support/factories.ts';
import { removeEntry } from '../../support/graph-server.ts';

type Cloud = Omit<CloudFixture, 'env' | 'close'>;

describe('the pages of cloud backup', () => {
  const env: Record<string, string> = {};
  let microsoft: Awaited<ReturnType<typeof startMicrosoft>>;
  // Before the server, which has to know where Microsoft is.
  before(async () => {
    microsoft = await startMicrosoft();
    Object.assign(env, microsoft.env);
  });
  const dashboard = useDashboard({ outbound: { allowHttp: true }, env });
  let cloud: Cloud;

  before(async () => {
    cloud = await buildCloudTenant(dashboard.app, microsoft.graph);
  });
  after(() => microsoft.close());

  const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });
  const refusalOf = (page: Page, button: string) =>
    page.getByRole('button', { name: button }).first().getAttribute('aria-description');
  const choose = async (page: Page, field: string, option: string) => {
    await page.getByRole('combobox', { name: field }).click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };

  it('say what is missing, step by step, and connect a directory with an app of its own', async () => {
    const tenant = await buildTenant(dashboard.app);
    const page = await dashboard.open('/cloud-backup', { person: tenant.admin, isProven: true });
    await page.getByText('No directory is connected').waitFor();
    expect(await refusalOf(page, 'New configuration')).to.include('Connect a directory');
    await page.getByRole('link', { name: 'Connect a directory' }).click();
    await page.getByRole('button', { name: 'Connect a directory' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'Connect a directory of Microsoft 365' });
    await dialog.getByText('You leave Muster.').waitFor();
    await assertAccessible(page);
    await dialog.getByRole('radio', { name: 'An app of your own' }).check();
    const fields = { ...connectionOf(tenant.orgId), tenantId: 'example.com', clientSecret: 'wrong' };
    await dialog.getByLabel('Name').fill('Example Ltd');
    await dialog.getByLabel('Directory (tenant) id').fill(fields.tenantId);
    await dialog.getByLabel('Application (client) id').fill(fields.clientId);
    await dialog.getByLabel('Client secret').fill(fields.clientSecret);
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Connect', exact: true }).click();
    await dialog.getByText('Choose one.', { exact: true }).waitFor();
    await dialog.getByLabel('Directory (tenant) id').fill(connectionOf(tenant.orgId).tenantId);
    await dialog.getByRole('button', { name: 'Connect', exact: true }).click();

    const row = rowOf(page, 'Example Ltd');
    await row.getByRole('button', { name: 'Test' }).click();
    await row.getByText('Microsoft refuses: see the state.').waitFor();
    await row.getByText(/Microsoft refuses the sign-in of the app/).waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Change' }).click();
    const change = page.getByRole('dialog', { name: 'Change “Example Ltd”' });
    await change.getByLabel('New client secret').fill('a-newer-secret');
    await change.getByRole('button', { name: 'Save' }).click();
    await row.getByText('Active').waitFor();
    await row.getByRole('button', { name: 'Test' }).click();
    await row.getByText('Microsoft answers.').waitFor();
    await page.getByRole('link', { name: 'Items' }).click();
    await page.getByText('Nothing is backed up').waitFor();
    await page.getByRole('link', { name: 'Jobs' }).click();
    await page.getByText('Nothing was backed up yet').waitFor();
    await page.getByRole('link', { name: 'Connections' }).click();
    await row.getByRole('button', { name: 'Disconnect' }).click();
    const question = page.getByRole('dialog', { name: 'Disconnect “Example Ltd”' });
    await question.getByText('Muster forgets its access').waitFor();
    await question.getByRole('button', { name: 'Disconnect' }).click();
    await row.waitFor({ state: 'detached' });
  });

  it('lead to the consent at Microsoft and back, and say why it failed', async () => {
    const { graph } = microsoft;
    const tenant = await buildTenant(dashboard.app);
    dashboard.allow(new RegExp(`a request to ${graph.loginUrl}`));
    // The links of the server name the host that people use, to which its cookies belong.
    const url = dashboard.url;
    const open = async (isAdministrator: boolean) => {
      graph.person.isAdministrator = isAdministrator;
      const page = await dashboard.open(`${url}/cloud-backup/connections`, { person: tenant.admin });
      await page.getByText('No directory is connected').waitFor();
      await giveSecondFactor(dashboard.app, tenant.admin);
      await page.reload();
      await page.getByRole('button', { name: 'Connect a directory' }).last().click();
      await page.getByLabel('Name').fill('The directory');
      await page.getByRole('button', { name: 'Go on at Microsoft' }).click();
      return page;
    };
    const refused = await open(false);
    await refused.getByRole('alert').getByText('is no administrator of the directory').waitFor();
    await assertAccessible(refused);
    const page = await open(true);
    await page.getByRole('status').getByText('Nothing is backed up yet.').waitFor();
    await rowOf(page, 'The directory').getByText('The app of this server').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Close' }).click();
    expect(new URL(page.url()).search).to.equal('');
  });

  it('make a configuration, run it, find its items, and bring them back', async () => {
    const [ada, bob] = [cloud.mailbox('ada@example.com'), cloud.mailbox('bob@example.com')];
    bob.hasDrive = false;
    for (let i = 0; i < 60; i++) ada.message(`m${i}`, `Mail ${i}`);
    ada.message('gone', 'The contract', 'x', {
      from: { name: 'Grace Hopper', address: 'grace@example.com' },
    });
    ada.event('e', 'Meeting');
    ada.contact('c', 'Grace Hopper');
    ada.folder('d', 'Papers');
    ada.file('f', 'plan.txt', Buffer.from('the first plan'), 'd');
    ada.file('broken', 'broken.bin', Buffer.from('x'));
    microsoft.graph.onCall = ({ path }) => (path.endsWith('/broken/content') ? { status: 403 } : undefined);

    const page = await dashboard.open('/cloud-backup', { person: cloud.tenant.admin });
    await page.getByRole('button', { name: 'New configuration' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New configuration' });
    await dialog.getByLabel('Name').fill('Everybody');
    await choose(page, 'Encryption key', 'Cloud');
    await dialog.getByRole('radio', { name: 'Some users' }).check();
    await dialog.getByLabel('Addresses').fill('ada@example.com, nobody');
    await assertAccessible(page);
    await dialog.getByRole('tab', { name: 'When and how long' }).click();
    await choose(page, 'How often', 'Every week');
    await assertAccessible(page);
    dashboard.allow(/status of 400/);
    await dialog.getByRole('button', { name: 'Make the configuration' }).click();
    await dialog.getByRole('alert').waitFor();
    await dialog.getByRole('tab', { name: 'What and whose has a fault' }).click();
    await dialog.getByText('Invalid email address', { exact: true }).waitFor();
    await dialog.getByLabel('Addresses').fill('ada@example.com\nbob@example.com');
    await dialog.getByRole('button', { name: 'Make the configuration' }).click();
    const row = rowOf(page, 'Everybody');
    await row.getByText(/^2 users of/).waitFor();
    await row.getByText('Weekly at 22:00').waitFor();

    await row.getByRole('button', { name: 'Run now' }).click();
    const drawer = page.getByRole('dialog', { name: 'Cloud backup job' });
    await drawer.getByText('Partial').first().waitFor();
    const outcomes = drawer.getByRole('table', { name: 'What became of each user' });
    await outcomes.getByRole('row', { name: 'bob@example.com OneDrive' }).getByText('Not there').waitFor();
    await drawer.getByText('Only those with failures (').waitFor();
    await assertAccessible(page);
    await drawer.getByRole('switch', { name: /^Only those/ }).check();
    await outcomes.getByText('Calendar').first().waitFor({ state: 'detached' });
    await drawer.getByRole('button', { name: 'Close' }).click();
    await rowOf(page, 'Everybody')
      .getByText(/64 new, 1 failed/)
      .waitFor();

    ada.file('f', 'plan.txt', Buffer.from('a later plan'), 'd');
    removeEntry(ada.folders.get('inbox')!.entries, 'gone');
    const { body: configs } = await cloud.call('GET', '/c2c/configs');
    await cloud.run(configs.data[0].id as string);
    await page.getByRole('link', { name: 'Configurations' }).click();
    await row.getByText('Partial').waitFor();
    await page.getByText(/They take .* in the backup store/).waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Items' }).click();
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.getByText('This is the last page.').waitFor();
    await page.getByRole('button', { name: 'First page' }).click();
    await choose(page, 'User', 'ada@example.com');
    await assertAccessible(page);
    expect(await refusalOf(page, 'Restore …')).to.include('Choose items');
    await choose(page, 'Kind', 'OneDrive');
    await rowOf(page, 'broken.bin').getByText('Not fetched').waitFor();
    await rowOf(page, 'plan.txt').getByRole('button', { name: 'Details' }).click();
    const item = page.getByRole('dialog', { name: 'Cloud item' });
    const contents = item.getByRole('table', { name: 'Contents of the item' });
    await contents.getByRole('row').nth(2).waitFor();
    await assertAccessible(page);
    const [earlier] = await Promise.all([
      page.waitForEvent('download'),
      contents.getByRole('row').last().getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(earlier.suggestedFilename()).to.equal('plan.txt');
    await contents.getByRole('row').last().getByRole('button', { name: 'Restore …' }).click();
    const restore = page.getByRole('dialog', { name: 'Restore “plan.txt”' });
    await restore.getByRole('radio', { name: 'Another user' }).check();
    await restore.getByLabel('Address of the user').fill('ada@example.com');
    await restore.getByLabel('Folder').fill('From the backup');
    await assertAccessible(page);
    await restore.getByRole('button', { name: 'Restore', exact: true }).click();
    await drawer.getByText('Restored', { exact: true }).waitFor();
    await drawer.getByText('Completed').waitFor();
    await assertAccessible(page);
    expect(String(ada.files.get('path:From the backup/Papers/plan.txt')?.content)).to.equal('the first plan');

    await drawer.getByRole('button', { name: 'Close' }).click();
    await page.goto('/cloud-backup/items?state=deleted&q=contract');
    await rowOf(page, 'The contract').getByText('Deleted').waitFor();
    await page.getByRole('textbox', { name: 'Search names and senders' }).fill('hopper CONTR');
    await rowOf(page, 'The contract').getByText('from Grace Hopper').waitFor();
    await page.waitForURL(/q=hopper/);
    await page.getByRole('checkbox', { name: 'Choose all on this page' }).check();
    const [archive] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download', exact: true }).click(),
    ]);
    expect(archive.suggestedFilename()).to.equal('cloud-backup.tar');
    await page.getByRole('textbox', { name: 'Search names and senders' }).fill('no such name');
    await page.getByText('No such items').waitFor();
    await page.getByRole('button', { name: 'Show all items' }).click();
    await page.getByText('Mail 7', { exact: true }).waitFor();
  });

  it('have their failures shown in the overview of backups', async () => {
    const name = 'Of nobody';
    const configId = await cloud.config({ name, backupScope: ['mail'], targetUsers: ['nobody@example.com'] });
    await cloud.run(configId);
    const page = await dashboard.open('/backup', { person: cloud.tenant.admin, isProven: true });
    const row = page
      .getByRole('table', { name: 'Cloud backups that need attention' })
      .getByRole('row')
      .filter({ hasText: name });
    await row.getByText('The last run has failed.').waitFor();
    await row.getByText('No run has ended well yet.').waitFor();
    await page
      .getByText(/configurations protect what they are about\. 1 failing, 0 late, 1 without/)
      .waitFor();
    await assertAccessible(page);
    await row.getByRole('link', { name }).click();
    await rowOf(page, 'Failed').first().waitFor();
    await page.goto('/');
    await page.getByText('1 cloud backup of 2 failing, late or unprotected').waitFor();
    await cloud.call('DELETE', `/c2c/configs/${configId}`);
  });

  it('show a run as it goes on, and stop it', async () => {
    const eve = cloud.mailbox('eve@example.com');
    for (let i = 0; i < 60; i++) eve.message(`v${i}`, `News ${i}`);
    let isHeld = true;
    microsoft.graph.onCall = ({ path, query }) =>
      isHeld && path.endsWith('/messages/delta') && query.has('$skiptoken')
        ? { status: 429, headers: { 'retry-after': '1' } }
        : undefined;
    const name = 'Held';
    await cloud.config({ name, backupScope: ['mail'], targetUsers: ['eve@example.com'] });
    const page = await dashboard.open('/cloud-backup', { person: cloud.tenant.admin, isProven: true });
    const row = rowOf(page, name);
    await row.getByRole('button', { name: 'Run now' }).click();
    const drawer = page.getByRole('dialog', { name: 'Cloud backup job' });
    await drawer.getByText(/^10 items looked at/).waitFor();
    await drawer.getByRole('progressbar', { name: 'Progress of the backup' }).waitFor();
    await assertAccessible(page);
    await drawer.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Stop the backup' }).click();
    await drawer.getByText('Cancelled').waitFor();
    isHeld = false;
    await drawer.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('link', { name: 'Configurations' }).click();
    await row.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('This cannot be undone.').waitFor();
    await page.getByRole('button', { name: 'Delete with all items' }).click();
    await row.waitFor({ state: 'detached' });
  });

  it('show what there is to a person who may only look, and nothing to another tenant', async () => {
    const person = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: cloud.tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open('/cloud-backup', { person });
    await rowOf(page, 'Everybody').waitFor();
    for (const button of ['Run now', 'Change', 'Delete', 'New configuration']) {
      expect(await refusalOf(page, button), button).to.include('which your role');
    }
    await page.getByRole('link', { name: 'Items' }).click();
    expect(await refusalOf(page, 'Download')).to.include('recovery:execute');
    await page.getByRole('link', { name: 'Connections' }).click();
    expect(await refusalOf(page, 'Connect a directory')).to.include('backup:write');

    const other = await buildTenant(dashboard.app);
    const foreign = await dashboard.open('/cloud-backup/jobs', { person: other.admin });
    await foreign.getByText('Nothing was backed up yet').waitFor();
  });
});

import { expect } from 'chai';
import type { Locator, Page } from 'playwright-core';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';

describe('the dialog of a backup configuration', () => {
  const dashboard = useDashboard();
  let tenant: BackupTenant;

  before(async () => {
    tenant = await buildBackupTenant(dashboard.app);
  });

  const open = () => dashboard.open('/backup/configurations', { person: tenant.admin });
  const rowOf = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });

  async function newConfiguration(page: Page, name: string): Promise<Locator> {
    await page.getByRole('button', { name: 'New configuration' }).first().click();
    const form = page.getByRole('dialog', { name: 'New configuration' });
    await form.getByRole('textbox', { name: 'Name' }).fill(name);
    await form.getByRole('combobox', { name: 'Encryption key' }).click();
    await page.getByRole('option', { name: 'Main' }).click();
    await form.getByRole('tab', { name: 'What' }).click();
    return form;
  }

  async function change(page: Page, name: string): Promise<Locator> {
    await rowOf(page, name).getByRole('button', { name: 'Change' }).click();
    return page.getByRole('dialog', { name: `Change “${name}”` });
  }

  async function sources(name: string): Promise<unknown> {
    const { body } = await tenant.send('GET', '/backup/configs');
    const configs: { name: string; sources: unknown }[] = body.data;
    return configs.find((config) => config.name === name)?.sources;
  }

  it('begins with the only organization, also if that is known only after the dialog was opened', async () => {
    const page = await dashboard.newPage();
    let answer = () => {};
    const answered = new Promise<void>((resolve) => (answer = resolve));
    await page.route(/\/orgs\/organizations/, async (route) => {
      await answered;
      await route.continue();
    });
    const code = await dashboard.app.server.signInFragment(tenant.admin.id);
    await page.goto(`/backup/configurations${code}`);
    await page.getByRole('button', { name: 'New configuration' }).first().click();
    const form = page.getByRole('dialog', { name: 'New configuration' });
    await form.getByRole('textbox', { name: 'Name' }).fill('Early');
    answer();
    await form.getByRole('combobox', { name: 'Encryption key' }).click();
    await page.getByRole('option', { name: 'Main' }).waitFor();
  });

  it('makes one of whole disks, and shows a fault at its field', async () => {
    dashboard.allow(/status of 400/);
    const page = await open();
    const form = await newConfiguration(page, 'Machines');
    await form.getByRole('radio', { name: 'Whole disks' }).check();
    await form.getByRole('radio', { name: 'Those that are named' }).check();
    const disks = form.getByRole('textbox', { name: 'Disks', exact: true });
    await disks.fill('../sda');
    await assertAccessible(page);
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await form.getByRole('tab', { name: 'What has a fault' }).waitFor();
    await form.locator('[aria-invalid=true]').and(disks).waitFor();
    await disks.fill('sda\n nvme0n1 \n');
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await rowOf(page, 'Machines').getByText('Whole disks').waitFor();
    expect(await sources('Machines')).to.deep.equal({
      kind: 'image',
      disks: ['sda', 'nvme0n1'],
      excludeDisks: [],
    });

    const again = await change(page, 'Machines');
    await again.getByRole('tab', { name: 'What' }).click();
    expect(await again.getByRole('textbox', { name: 'Disks', exact: true }).inputValue()).to.equal(
      'sda\nnvme0n1',
    );
    await again.getByRole('radio', { name: 'Every fixed disk' }).check();
    await again.getByRole('textbox', { name: 'Disks that are left out' }).fill('sdb');
    await again.getByRole('button', { name: 'Save' }).click();
    await again.waitFor({ state: 'detached' });
    expect(await sources('Machines')).to.deep.equal({ kind: 'image', disks: 'all', excludeDisks: ['sdb'] });
  });

  it('makes one of databases, with what is possible for each engine', async () => {
    dashboard.allow(/status of 400/);
    const page = await open();
    const form = await newConfiguration(page, 'Shop');
    await form.getByRole('radio', { name: 'Databases' }).check();
    await form.getByRole('radio', { name: 'Logs' }).waitFor();
    await form.getByRole('combobox', { name: 'Engine' }).click();
    await page.getByRole('option', { name: 'MariaDB' }).click();
    await form.getByRole('radio', { name: 'Logs' }).waitFor({ state: 'detached' });
    await form.getByRole('combobox', { name: 'Instance' }).fill('/run/mysqld/mysqld.sock');
    const days = form.getByRole('textbox', { name: 'Days between full backups' });
    await days.fill('91');
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await form.locator('[aria-invalid=true]').and(days).waitFor();
    await assertAccessible(page);
    await days.fill('14');
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await rowOf(page, 'Shop').getByText('Databases').waitFor();
    expect(await sources('Shop')).to.deep.equal({
      kind: 'database',
      engine: 'mariadb',
      instance: '/run/mysqld/mysqld.sock',
      fullEveryDays: 14,
      between: 'differential',
    });
  });

  it('makes one of a database of SQL Server, and says what is wrong at its fields', async () => {
    dashboard.allow(/status of 400/);
    const page = await open();
    const form = await newConfiguration(page, 'Sales');
    await form.getByRole('radio', { name: 'SQL Server' }).check();
    const instance = form.getByRole('combobox', { name: 'Instance' });
    expect(await instance.inputValue()).to.equal('MSSQLSERVER');
    await form.getByText('Logs need the recovery model').waitFor();
    await form.getByRole('combobox', { name: 'Database' }).fill('Sales');
    const folder = form.getByRole('textbox', { name: 'Folder for backups on their way' });
    await folder.fill('spool');
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await form.locator('[aria-invalid=true]').and(folder).waitFor();
    await assertAccessible(page);
    await folder.fill(String.raw`D:\Spool`);
    await form.getByRole('radio', { name: 'What has changed since the full one' }).check();
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await rowOf(page, 'Sales').getByText('SQL Server: Sales').waitFor();
    const made = {
      kind: 'mssql',
      instance: 'MSSQLSERVER',
      database: 'Sales',
      spoolPath: String.raw`D:\Spool`,
      fullEveryDays: 7,
      between: 'differential',
    };
    expect(await sources('Sales')).to.deep.equal(made);

    const again = await change(page, 'Sales');
    await again.getByRole('tab', { name: 'What' }).click();
    expect(
      await again.getByRole('radio', { name: 'What has changed since the full one' }).isChecked(),
    ).to.equal(true);
    await again.getByRole('radio', { name: 'Logs' }).check();
    await again.getByRole('button', { name: 'Save' }).click();
    await again.waitFor({ state: 'detached' });
    expect(await sources('Sales')).to.deep.equal({ ...made, between: 'log' });

    await rowOf(page, 'Sales').getByRole('button', { name: 'Run now' }).click();
    const run = page.getByRole('dialog', { name: 'Run “Sales” now' });
    await run.getByRole('combobox', { name: 'Type' }).click();
    await page.getByRole('option', { name: 'Differential backup' }).waitFor();
    await assertAccessible(page);
  });

  it('says in which time zone it runs, and what a backup may take of its device', async () => {
    dashboard.allow(/status of 400/);
    await tenant.createConfig({ name: 'Slow', limits: { cpuPercent: 50 } });
    const page = await open();
    const form = await change(page, 'Slow');
    await form.getByRole('tab', { name: 'When and how long' }).click();
    await form.getByRole('combobox', { name: 'How often' }).click();
    await page.getByRole('option', { name: 'Every day' }).click();
    const zone = form.getByRole('combobox', { name: 'Time zone' });
    await zone.fill('Berlin');
    await page.getByRole('option', { name: 'Europe/Berlin' }).click();
    await assertAccessible(page);
    await form.getByRole('tab', { name: 'Devices' }).click();
    const [upload, processors] = ['Upload of a device in KiB a second', 'Percent of its processors'].map(
      (name) => form.getByRole('textbox', { name }),
    ) as [Locator, Locator];
    expect(await processors.inputValue()).to.equal('50');
    await processors.fill('');
    await upload.fill('1');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.locator('[aria-invalid=true]').and(upload).waitFor();
    await assertAccessible(page);
    await upload.fill('2000');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.waitFor({ state: 'detached' });
    const { body } = await tenant.send('GET', '/backup/configs');
    const slow = body.data.find(({ name }: { name: string }) => name === 'Slow');
    expect(slow.limits).to.deep.equal({ uploadKiBps: 2000 });
    expect(slow.schedule).to.include({ frequency: 'daily', timezone: 'Europe/Berlin' });
  });

  it('makes one of virtual machines', async () => {
    const page = await open();
    const form = await newConfiguration(page, 'Hosts');
    await form.getByRole('radio', { name: 'Machines of Hyper-V' }).check();
    await form.getByRole('radio', { name: 'Those that are named' }).check();
    await form.getByRole('textbox', { name: 'Machines' }).fill('Mail\n\nFiles');
    await form.getByRole('radio', { name: 'As after a power cut' }).check();
    await assertAccessible(page);
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await rowOf(page, 'Hosts').getByText('Machines of Hyper-V').waitFor();
    expect(await sources('Hosts')).to.deep.equal({
      kind: 'hyperv',
      machines: ['Mail', 'Files'],
      consistency: 'crash',
    });
  });

  it('keeps what was set elsewhere, even if another kind was looked at meanwhile', async () => {
    const kept = { kind: 'files', paths: { linux: ['/srv'] }, excludes: ['*.tmp'], oneFileSystem: true };
    await tenant.createConfig({ name: 'Papers', sources: kept, retention: { retentionDays: 30 } });
    const page = await open();
    const form = await change(page, 'Papers');
    await form.getByRole('textbox', { name: 'Name' }).fill('Letters');
    await form.getByRole('tab', { name: 'What' }).click();
    await form.getByRole('radio', { name: 'Databases' }).check();
    await form.getByRole('radio', { name: 'Files' }).check();
    expect(await form.getByRole('textbox', { name: 'Paths on Linux' }).inputValue()).to.equal('/srv');
    expect(await form.getByRole('checkbox', { name: 'Stay on one file system' }).isChecked()).to.equal(true);
    await form.getByRole('button', { name: 'Save' }).click();
    await rowOf(page, 'Letters').waitFor();
    expect(await sources('Letters')).to.deep.equal(kept);
  });
});

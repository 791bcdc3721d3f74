import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { type DatabaseDetails, COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { needsRestic } from '../../../support/restic.ts';

/** In the winter, so that Berlin is an hour ahead. */
const DAY = '2026-01-15';
const FULL: DatabaseDetails = {
  kind: 'database',
  engine: 'postgresql',
  instance: '/run/postgresql:5432',
  databases: ['shop', 'crm'],
  backupType: 'full',
  version: '15.8',
  from: '0/100',
  to: '0/200',
  branch: '1/1',
  basedOn: null,
  recoverableFrom: `${DAY}T09:00:00.500Z`,
  recoverableTo: `${DAY}T09:00:00.500Z`,
};
const LOG: DatabaseDetails = {
  ...FULL,
  backupType: 'log',
  from: '0/200',
  to: '0/300',
  recoverableFrom: null,
  recoverableTo: `${DAY}T11:00:00.000Z`,
};
const disk = (name: string, offset: number) => ({
  name,
  sizeBytes: 40 * 2 ** 30,
  offset,
  sectorBytes: 512,
});
/** A backup in the history of SQL Server. */
const set = (id: number, more: object) => ({
  id,
  uuid: `00000000-0000-4000-8000-00000000000${id}`,
  isCopyOnly: false,
  isDamaged: false,
  fork: null,
  differentialBase: null,
  finishedAt: `2026-11-22T08:00:0${id}`,
  sizeBytes: 2 ** 20,
  file: String.raw`D:\Backups\sales-${id}.bak`,
  ...more,
});
const GERMAN = { timezoneId: 'Europe/Berlin', locale: 'en-GB' };

describe('the pages of backups of databases and whole disks', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-databases-'));
  const dashboard = useDashboard({ backupStore: { reserveBytes: 0 }, env: { DATA_DIR: dataDir } });
  let device: BackedUpDevice;
  let image: BackupSnapshot;
  let agent: FakeDevice;

  before(async function () {
    this.timeout(120_000);
    needsRestic(this);
    device = await buildBackedUpDevice({ ...dashboard.app, dataDir });
    await device.write({ 'a.txt': 'first' });
    await device.backUp({ backupType: 'database', details: FULL });
    await device.backUp({ backupType: 'database', details: LOG });
    await device.backUp({ backupType: 'database', details: { ...LOG, from: '0/500', to: '0/600' } });
    image = await device.backUp({
      backupType: 'system_image',
      details: {
        kind: 'image',
        source: 'disk',
        machine: 'FRONT-DESK',
        disks: [disk('sda', 0), disk('sdb', 40 * 2 ** 30)],
        bootMode: 'uefi',
        consistency: 'none',
        memoryBytes: 2 ** 33,
        processors: 4,
        system: 'Debian 12',
      },
    });
    agent = await connectDevice(dashboard.app, device.device.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
  });
  after(async () => {
    // Where restic is missing, there is none.
    (agent as FakeDevice | undefined)?.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('say what each snapshot is, and offer no files of databases', async () => {
    const page = await dashboard.open(`/devices/${device.deviceId}?tab=backup`, { person: device.admin });
    const rows = page.getByRole('table', { name: 'Snapshots' }).getByRole('row');
    await rows.filter({ hasText: 'PostgreSQL 15.8: full backup' }).waitFor();
    await rows.filter({ hasText: '2 disks of FRONT-DESK, 80 GiB' }).getByRole('link').click();
    const disks = page.getByRole('table', { name: 'Disks' });
    await disks.getByRole('row', { name: 'sdb 40 GiB' }).waitFor();
    await page.getByRole('row', { name: 'Starts by UEFI' }).waitFor();
    await page.getByRole('row', { name: 'Consistency None' }).waitFor();
    expect(new URL(page.url()).pathname).to.equal(`/backup/snapshots/${image.id}`);
    expect(await page.getByRole('button', { name: 'Restore …' }).count()).to.equal(0);
    expect(await page.getByRole('table', { name: 'Files and folders' }).count()).to.equal(0);
    await assertAccessible(page);

    await page.goBack();
    await rows.filter({ hasText: 'PostgreSQL 15.8: full backup' }).getByRole('link').click();
    await page.getByRole('row', { name: 'Databases shop, crm' }).waitFor();
    const download = page.getByRole('button', { name: 'Download' });
    expect(await download.getAttribute('aria-disabled')).to.equal('true');
    expect(await download.getAttribute('aria-description')).to.include('A database is no folder');
    await page.getByRole('button', { name: 'Restore …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore a database server' });
    expect(await dialog.getByRole('radio', { name: 'A point in time' }).isDisabled()).to.equal(true);
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'All that can be restored of it' }).click();
    await page.getByRole('heading', { level: 1, name: 'Databases' }).waitFor();
    expect(new URL(page.url()).searchParams.get('device')).to.equal(device.deviceId);
  });

  it('restore a machine of a snapshot, under another name', async () => {
    const machine = {
      generation: 2,
      bootMode: 'uefi' as const,
      memoryBytes: 2 ** 31,
      processors: 2,
      consistency: 'crash' as const,
      bytes: 2 ** 30,
    };
    const snapshot = await device.backUp({
      backupType: 'application',
      details: {
        kind: 'machines',
        hypervisor: 'hyperv',
        machines: [
          { ...machine, id: 'a-1', name: 'Mail' },
          { ...machine, id: 'a-2', name: 'Files' },
        ],
      },
    });
    const page = await dashboard.open(`/backup/snapshots/${snapshot.id}`, { person: device.admin });
    await page
      .getByRole('table', { name: 'Machines' })
      .getByRole('row', { name: /^Mail UEFI/ })
      .waitFor();
    await page.getByRole('button', { name: 'Restore …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore a machine' });
    await dialog.getByRole('combobox', { name: 'Machine' }).click();
    await page.getByRole('option', { name: 'Files' }).click();
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Files again');
    await assertAccessible(page);
    const asked = page.waitForRequest(
      (request) => request.method() === 'POST' && /hyperv/.test(request.url()),
    );
    dashboard.allow(/status of 4\d\d/);
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
    expect((await asked).postDataJSON()).to.deep.equal({
      snapshotId: snapshot.id,
      deviceId: device.deviceId,
      machine: 'a-2',
      vmName: 'Files again',
      generateNewId: true,
    });
    // The device of the test has no Hyper-V: the refusal stays beside what was typed.
    await dialog.getByRole('alert').waitFor();
  });

  it('find the servers of one device at a time', async () => {
    const page = await dashboard.open('/backup/databases', { person: device.admin });
    await page.getByText('Choose a device above, and look for those that it runs.').waitFor();
    const look = page.getByRole('button', { name: 'Look for databases' });
    expect(await look.getAttribute('aria-description')).to.include('Choose a device first');
    await page.goto(`/backup/databases?device=${device.deviceId}`);
    await page.getByText('The device has named none.').waitFor();
    await assertAccessible(page);
    await look.click();
    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('backup.databases');
    const server = { engine: 'mariadb', version: '10.11', port: 3306, dataFolder: null };
    await agent.succeed(frame, {
      instances: [
        {
          ...server,
          instance: '/run/mysqld/mysqld.sock',
          databases: [{ name: 'wiki', sizeBytes: 1000 }],
          problems: [{ code: 'TOOL_MISSING', message: 'The program mariadb-backup is missing.' }],
        },
      ],
    });
    const row = page.getByRole('row').filter({ hasText: 'MariaDB 10.11' });
    await row.getByText('wiki').waitFor();
    await row.getByText('The program mariadb-backup is missing.').waitFor();
    await assertAccessible(page);
  });

  it('show what SQL Server itself knows of its backups, and have it write and read files', async () => {
    const page = await dashboard.open(`/backup/databases?device=${device.deviceId}`, {
      person: device.admin,
    });
    await page.getByRole('button', { name: 'Look for databases' }).click();
    const databases = [{ name: 'Sales', sizeBytes: 1000 }];
    await agent.succeed(await agent.nextCommand(), {
      instances: [
        {
          engine: 'mssql',
          instance: 'MSSQLSERVER',
          version: '16.0',
          port: null,
          dataFolder: null,
          databases,
          problems: [],
        },
      ],
    });
    const row = page.getByRole('row').filter({ hasText: 'SQL Server 16.0' });
    await row.getByRole('button', { name: 'Backups' }).click();
    const asked = await agent.nextCommand();
    expect(asked.type).to.equal('backup.mssql-history');
    expect(asked.payload).to.deep.equal({ instance: 'MSSQLSERVER', database: 'Sales' });
    await agent.succeed(asked, {
      recoveryModel: 'FULL',
      sets: [
        set(1, { backupType: 'full', firstLsn: '5', lastLsn: '10' }),
        set(2, { backupType: 'log', firstLsn: '10', lastLsn: '20' }),
        set(3, { backupType: 'log', firstLsn: '25', lastLsn: '30', file: null }),
      ],
    });
    const drawer = page.getByRole('dialog', { name: 'SQL Server MSSQLSERVER' });
    await drawer.getByText('A log is missing', { exact: true }).waitFor();
    await drawer.getByText(/With 0 differential backups and 1 log, .* up to 2026-11-22 08:00:02/).waitFor();
    await assertAccessible(page);

    const chain = drawer.getByRole('table', { name: /^Backups of the chain/ });
    await chain
      .getByRole('row')
      .filter({ hasText: 'Log' })
      .getByRole('button', { name: 'Restore …' })
      .click();
    const dialog = page.getByRole('dialog', { name: 'Restore: log of Sales' });
    await dialog.getByLabel('Up to').fill('2026-11-22T08:00:00');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
    const order = await agent.nextCommand();
    expect(order.type).to.equal('backup.mssql-restore');
    expect(order.payload).to.deep.include({
      backupFile: String.raw`D:\Backups\sales-2.bak`,
      targetDatabase: 'Sales_restored',
      backupType: 'log',
      stopAt: '2026-11-22T08:00:00',
      noRecovery: false,
    });
    await agent.fail(order, 'DATABASE_MISSING', 'There is no database “Sales_restored”.');
    await drawer.getByText('There is no database “Sales_restored”.').waitFor();

    await drawer.getByRole('button', { name: 'Back up to a file …' }).click();
    const backup = page.getByRole('dialog', { name: 'Back up Sales to a file' });
    dashboard.allow(/status of 400/);
    await backup.getByRole('textbox', { name: 'Folder' }).fill('Backups');
    await backup.getByRole('button', { name: 'Back up', exact: true }).click();
    await backup
      .getByText(/must be an absolute path/)
      .first()
      .waitFor();
    await backup.getByRole('textbox', { name: 'Folder' }).fill(String.raw`D:\Backups`);
    await backup.getByRole('checkbox', { name: 'Copy only' }).check();
    await backup.getByRole('button', { name: 'Back up', exact: true }).click();
    expect((await agent.nextCommand()).payload).to.deep.include({ backupType: 'full', copyOnly: true });
  });

  it('restore a chain that SQL Server itself knows, one file after another', async () => {
    const page = await dashboard.open(`/backup/databases?device=${device.deviceId}`, {
      person: device.admin,
    });
    await page
      .getByRole('row')
      .filter({ hasText: 'SQL Server 16.0' })
      .getByRole('button', { name: 'Backups' })
      .click();
    await agent.succeed(await agent.nextCommand(), {
      recoveryModel: 'FULL',
      sets: [
        set(1, { backupType: 'full', firstLsn: '5', lastLsn: '10' }),
        set(2, { backupType: 'log', firstLsn: '10', lastLsn: '20' }),
        set(3, {
          backupType: 'differential',
          firstLsn: '10',
          lastLsn: '20',
          differentialBase: '00000000-0000-4000-8000-000000000001',
        }),
        set(4, { backupType: 'log', firstLsn: '20', lastLsn: '100' }),
        set(5, { backupType: 'log', firstLsn: '100', lastLsn: '110', file: null }),
      ],
    });
    const drawer = page.getByRole('dialog', { name: 'SQL Server MSSQLSERVER' });
    await drawer.getByRole('button', { name: 'Restore with its chain …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore Sales with its chain' });
    // The last log is in no file that is known.
    const end = dialog.getByRole('combobox', { name: 'With everything up to' });
    expect(await end.inputValue()).to.equal('Log of 2026-11-22 08:00:04');
    await dialog.getByText('3 backups are restored').waitFor();
    await dialog.getByLabel('Up to', { exact: true }).fill('2026-11-22T08:00:03');
    await dialog.getByRole('textbox', { name: 'New database' }).fill('Sales of noon');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
    const run = drawer.getByRole('region', { name: 'Restore of Sales of noon' });
    await run.getByText('Keep this open').waitFor();
    await assertAccessible(page);
    for (const [file, backupType, more] of [
      [1, 'full', { noRecovery: true }],
      [3, 'differential', { noRecovery: true }],
      [4, 'log', { noRecovery: false, stopAt: '2026-11-22T08:00:03' }],
    ] as const) {
      const step = await agent.nextCommand();
      expect(step.payload).to.deep.include({
        targetDatabase: 'Sales of noon',
        backupFile: String.raw`D:\Backups\sales-${file}.bak`,
        backupType,
        ...more,
      });
      await agent.succeed(step, { database: 'Sales of noon', state: 'RESTORING', seconds: 1 });
    }
    await eventually(
      () => run.getByText('The device has done it.').count(),
      (done) => done === 3,
    );
    expect(await run.getByText('Keep this open').count()).to.equal(0);
  });

  it('restore a database of SQL Server with its chain, under a new name', async () => {
    const sql: DatabaseDetails = {
      ...FULL,
      engine: 'mssql',
      instance: 'MSSQLSERVER',
      databases: ['Sales'],
      version: '16.0',
      from: '5',
      to: '10',
      branch: null,
    };
    const windows = await buildBackedUpDevice({ ...dashboard.app, dataDir });
    await inSystem(dashboard.app, (tx) =>
      tx('devices').where({ id: windows.deviceId }).update({ os_type: 'windows' }),
    );
    await windows.write({ 'mssql.bak': 'full' });
    await windows.backUp({ backupType: 'database', details: sql });
    const log = { ...sql, backupType: 'log', from: '10', to: '20', recoverableFrom: null } as const;
    const newest = await windows.backUp({
      backupType: 'database',
      details: { ...log, recoverableTo: `${DAY}T11:00:00.000Z` },
    });
    const host = await connectDevice(dashboard.app, windows.device.token, {
      capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
    });
    try {
      const page = await dashboard.open(`/backup/snapshots/${newest.id}`, { person: windows.admin });
      await page.getByRole('button', { name: 'Restore …' }).click();
      const dialog = page.getByRole('dialog', { name: 'Restore a database of SQL Server' });
      const name = dialog.getByRole('textbox', { name: 'New database' });
      expect(await name.inputValue()).to.equal('Sales_restored');
      await dialog.getByText('The database then waits for more logs').waitFor();
      await dialog.getByRole('textbox', { name: 'Folder' }).fill('restored');
      dashboard.allow(/status of 400/);
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      await dialog.getByText('must be an absolute path').first().waitFor();
      await assertAccessible(page);
      await page.keyboard.press('Escape');

      await page.goto(`/backup/databases?device=${windows.deviceId}`);
      await page.getByRole('button', { name: 'Restore to a point in time …' }).click();
      await dialog.getByLabel(/^Point in time/).waitFor();
      await name.fill('Sales of January');
      await dialog.getByRole('textbox', { name: 'Folder' }).fill(String.raw`D:\Restored`);
      await dialog.getByRole('checkbox', { name: 'Without recovery' }).check();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      const frame = await host.nextCommand();
      expect(frame.type).to.equal('backup.database-restore');
      expect(frame.payload).to.deep.include({
        engine: 'mssql',
        targetDatabase: 'Sales of January',
        targetPath: String.raw`D:\Restored`,
        pointInTime: `${DAY}T11:00:00.000Z`,
        noRecovery: true,
      });
      const drawer = page.getByRole('dialog', { name: 'Restore', exact: true });
      await drawer.getByRole('row', { name: 'New database Sales of January' }).waitFor();
      await drawer.getByRole('row', { name: 'Snapshots 2' }).waitFor();
      await drawer.getByRole('row', { name: 'Recovery Waits for more logs' }).waitFor();
      await assertAccessible(page);
    } finally {
      host.close();
    }
  });

  it('restore a point in time of the own time zone, and lead to the restore', async () => {
    const page = await dashboard.open('/backup/databases', { person: device.admin, ...GERMAN });
    await page.getByText('Any point in time from 15 Jan 2026, 10:00:00 to 15 Jan 2026, 12:00:00').waitFor();
    await page.getByText('What it continues is not there: logs before it are missing.').waitFor();
    await page.getByText('2 snapshots').click();
    await page.getByRole('table', { name: 'Snapshots of the chain' }).getByText('Full backup').waitFor();
    await assertAccessible(page);

    await page.getByRole('button', { name: 'Restore to a point in time …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore a database server' });
    const instant = dialog.getByLabel('Point in time (Europe/Berlin)');
    expect(await instant.inputValue()).to.match(/^2026-01-15T12:00/);
    await instant.fill(`${DAY}T12:00:01`);
    await dialog.getByText('This point in time cannot be restored.').waitFor();
    await instant.fill(`${DAY}T10:30:00`);
    await dialog.getByText('This point in time cannot be restored.').waitFor({ state: 'detached' });
    await dialog.getByText(`That is ${DAY}T10:30:00+01:00.`).waitFor();
    await dialog.getByRole('textbox', { name: 'Folder' }).fill('/srv/restored');
    await dialog.getByRole('checkbox', { name: 'Without recovery' }).check();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click();

    const frame = await agent.nextCommand();
    expect(frame.type).to.equal('backup.database-restore');
    expect(frame.payload).to.deep.include({
      targetPath: '/srv/restored',
      pointInTime: `${DAY}T09:30:00.000Z`,
      noRecovery: true,
    });
    const drawer = page.getByRole('dialog', { name: 'Restore' });
    await drawer.getByRole('row', { name: 'To 15 Jan 2026, 10:30:00' }).waitFor();
    await drawer.getByRole('row', { name: 'Recovery When its server starts with the folder' }).waitFor();
    await assertAccessible(page);
    await agent.fail(frame, 'TARGET_NOT_EMPTY', 'The folder is not empty.');
    await drawer.getByText('The folder is not empty.').waitFor();
    const again = drawer.getByRole('button', { name: 'Run it again' });
    expect(await again.getAttribute('aria-description')).to.include('is not run again');
  });
});

import { mkdtempSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { Keyboard } from '../../support/keyboard.ts';
import type { BackupSnapshot } from '../../../src/features/backup/snapshot.model.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../src/protocol/index.ts';
import { type ProofDevice, proofDevice } from '../proofs/backup/support/device.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../support/backup/snapshot-support.ts';
import { inSystem } from '../../support/backup/store-support.ts';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { eventually } from '../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../support/fake-device.ts';
import { needsRestic } from '../../support/restic.ts';

const OUTPUT = {
  status: 'completed',
  targetPath: '/srv/restored',
  filesRestored: 1,
  bytesRestored: 5,
  filesSkipped: 0,
  seconds: 1.5,
  failed: { count: 0, paths: [] },
};
/** Pages that show a list, by the heading of the page. */
const LISTS = {
  '/backup': 'Backup',
  '/backup/jobs': 'Backup jobs',
  '/backup/verifications': 'Verifications',
  '/backup/keys': 'Encryption keys',
};

describe('the pages of backup', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-walk-'));
  const dashboard = useDashboard({ backupStore: { reserveBytes: 0 }, env: { DATA_DIR: dataDir } });
  let device: BackedUpDevice;
  let snapshot: BackupSnapshot;
  let agent: FakeDevice | undefined;
  let machine: ProofDevice | undefined;

  before(async function () {
    needsRestic(this);
    device = await buildBackedUpDevice({ ...dashboard.app, dataDir });
    await device.write({ 'a.txt': 'first', 'papers/contract.txt': 'second' });
    snapshot = await device.backUp();
    const capabilities = [...COMMAND_TYPES, SECRETS_CAPABILITY];
    agent = await connectDevice(dashboard.app, device.device.token, { capabilities });
  });
  after(async () => {
    agent?.close();
    await machine?.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('find a file in a snapshot, and restore it to the device', async () => {
    const page = await dashboard.open(`/devices/${device.deviceId}?tab=backup`, { person: device.admin });
    await page.getByText('Not protected').waitFor();
    await assertAccessible(page);
    await page.getByRole('table', { name: 'Snapshots' }).getByRole('link').click();
    await page.getByRole('textbox', { name: 'Search names in this folder and below' }).fill('contract');
    const files = page.getByRole('table', { name: 'Files and folders' });
    await files.getByText('papers/contract.txt').waitFor();
    await page.getByRole('checkbox', { name: 'Choose "contract.txt" to restore it' }).check();
    await assertAccessible(page);

    await page.getByRole('button', { name: 'Restore 1 chosen …' }).click();
    const wizard = page.getByRole('dialog', { name: 'Restore' });
    await wizard.getByText(path.join(device.folder, 'papers/contract.txt')).waitFor();
    await wizard.getByRole('button', { name: 'Next' }).click();
    await wizard.getByRole('radio', { name: 'A folder of the device' }).check();
    await wizard.getByRole('textbox', { name: 'Folder' }).fill('/srv/restored');
    await wizard.getByRole('button', { name: 'Next' }).click();
    await wizard.getByRole('radio', { name: 'Replace older files' }).check();
    await assertAccessible(page);
    await wizard.getByRole('button', { name: 'Restore', exact: true }).click();

    const frame = await there(agent).nextCommand();
    expect(frame.payload).to.deep.include({ targetPath: '/srv/restored', overwrite: 'ifNewer' });
    await there(agent).send('command:progress', { id: frame.id, seq: 0, phase: 'running', percent: 40 });
    await wizard.getByText('Running · 40 %').waitFor();
    await there(agent).succeed(frame, OUTPUT);
    await wizard.getByText('1 file, 5 B').waitFor();
    await wizard.getByText('Completed').waitFor();
  });

  it('restore one file from its row into a new folder, by keys alone', async () => {
    const page = await dashboard.open(`/backup/snapshots/${snapshot.id}`, { person: device.admin });
    const keys = new Keyboard(page);
    const field = page.getByRole('textbox', { name: 'Search names in this folder and below' });
    await field.waitFor();
    await keys.press('/');
    await keys.hasFocus(field);
    await keys.type('contract');
    const row = page.getByRole('row').filter({ hasText: 'papers/contract.txt' });
    await keys.use(row.getByRole('button', { name: 'Restore', exact: true }));
    const wizard = page.getByRole('dialog', { name: 'Restore' });
    await keys.use(wizard.getByRole('button', { name: 'Restore into a new folder now' }));

    const frame = await there(agent).nextCommand();
    expect(frame.payload).to.deep.include({ overwrite: 'never' });
    expect(frame.payload).to.not.have.property('targetPath');
    await there(agent).succeed(frame, OUTPUT);
    await wizard.getByText('Completed').waitFor();
    const [restore] = (await device.send('GET', `/backup/restore?snapshotId=${snapshot.id}`)).body.data;
    expect(restore.selectedPaths).to.deep.equal([path.join(device.folder, 'papers/contract.txt')]);
  });

  it('go through the folders of a snapshot by its address', async () => {
    const folder = encodeURIComponent(device.folder);
    const page = await dashboard.open(`/backup/snapshots/${snapshot.id}?path=${folder}`, {
      person: device.admin,
    });
    await page.getByRole('button', { name: 'papers' }).click();
    await page.getByText('contract.txt').waitFor();
    expect(new URL(page.url()).searchParams.get('path')).to.equal(path.join(device.folder, 'papers'));
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download', exact: true }).click(),
    ]);
    expect(file.suggestedFilename()).to.equal('contract.txt');
  });

  it('keep a snapshot, show what has changed in it, and lead back to earlier states of the store', async () => {
    await device.write({ 'b.txt': 'new' });
    const later = await device.backUp();
    const page = await dashboard.open(`/backup/snapshots/${later.id}`, {
      person: device.admin,
      isProven: true,
    });
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Hold …' }).click();
    await dialog.getByRole('textbox', { name: 'Reason' }).fill('A dispute');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Hold', exact: true }).click();
    await page.getByRole('row', { name: 'Held because A dispute' }).waitFor();
    await page.getByRole('button', { name: 'Release the legal hold …' }).click();
    await dialog.getByText('It is held because: A dispute').waitFor();
    await dialog.getByRole('button', { name: 'Release', exact: true }).click();
    await page.getByRole('button', { name: 'Hold …' }).waitFor();
    await page.getByRole('button', { name: 'Make immutable …' }).click();
    const inAMonth = new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10);
    await dialog.getByLabel('Until the end of').fill(inAMonth);
    await dialog.getByRole('button', { name: 'Make immutable' }).click();
    await page.getByRole('row', { name: /^Immutable until/ }).waitFor();

    await page.getByText('Changes', { exact: true }).click();
    const added = page.getByRole('table', { name: 'Changes' }).getByRole('row').filter({ hasText: 'b.txt' });
    await added.getByText('Added').waitFor();
    await assertAccessible(page);

    const removedAt = new Date();
    await inSystem(dashboard.app, (tx) =>
      tx('backup_snapshots')
        .where({ id: later.id })
        .update({ removed_at: removedAt, removed_because: 'test' }),
    );
    await page.goto(`/backup/snapshots/${later.id}?path=${encodeURIComponent(device.folder)}`);
    await page.getByText('It was removed on').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Show it as it was before that' }).click();
    await page.getByText('b.txt').waitFor();

    await page.getByRole('button', { name: 'When it arrived' }).click();
    await page.getByText('The backup store as it was on').waitFor();
    await page.getByRole('button', { name: 'Restore …' }).click();
    await dialog.getByRole('button', { name: 'Next' }).click();
    await dialog.getByRole('button', { name: 'Next' }).click();
    await dialog.getByText('from the backup store as it was on').waitFor();
    await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
    const frame = await there(agent).nextCommand();
    await there(agent).succeed(frame, OUTPUT);
    await dialog.getByText('Completed').waitFor();
    const [restore] = (await device.send('GET', `/backup/restore?snapshotId=${later.id}`)).body.data;
    expect(restore.asOf).to.equal(later.receivedAt.toISOString());
  });

  it('protect a device by one button of its own tab, with the agent as a program', async function () {
    this.timeout(240_000);
    const { app } = dashboard;
    machine = await proofDevice({
      ground: app,
      orgId: device.orgId,
      url: app.url,
      within: dataDir,
      config: { isDefault: true },
      async ask(method, where, body) {
        const answer = await device.send(method, where, body);
        if (answer.status >= 300) throw new Error(JSON.stringify(answer.body));
        return answer.body;
      },
    });
    await writeFile(path.join(machine.source, 'letter.txt'), 'Dear reader');
    machine.startLater();
    const page = await dashboard.open(`/devices/${machine.deviceId}?tab=backup`, { person: device.admin });
    page.setDefaultTimeout(120_000);
    await page.getByText('Online').first().waitFor();
    await page.getByText('There is no snapshot of this device.').waitFor();
    await page.getByRole('button', { name: 'Protect this device' }).click();
    await page.getByRole('table', { name: 'Snapshots' }).getByRole('link').waitFor();
    await page.getByText('There are snapshots, but it was not verified that they can be read.').waitFor();
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Verify now' }).click();
    await page.getByText('There is a snapshot, and the backups were verified.').waitFor();
  });

  it('make a configuration that is the default, and protect the device with it', async () => {
    const page = await dashboard.open('/backup/configurations', { person: device.admin });
    await page.getByRole('button', { name: 'New configuration' }).first().click();
    const form = page.getByRole('dialog', { name: 'New configuration' });
    await form.getByRole('textbox', { name: 'Name' }).fill('Papers');
    await form.getByRole('combobox', { name: 'Encryption key' }).click();
    await page.getByRole('option', { name: 'Main' }).click();
    await form.getByRole('checkbox', { name: 'Default of the organization' }).check();
    await form.getByRole('tab', { name: 'Devices' }).click();
    await form.getByRole('checkbox', { name: 'Every device of the organization' }).check();
    await assertAccessible(page);
    await form.getByRole('button', { name: 'Make the configuration' }).click();
    await page.getByRole('row').filter({ hasText: 'Papers' }).getByText('Daily at 22:00').waitFor();

    await page.goto(`/devices/${device.deviceId}?tab=backup`);
    await page.getByRole('button', { name: 'Back up now' }).click();
    await page.getByRole('button', { name: 'Details' }).click();
    await page.getByRole('dialog', { name: 'Backup job' }).getByText('A person').waitFor();
    await assertAccessible(page);
  });

  it('make an SLA, change it, and delete it', async () => {
    const page = await dashboard.open('/backup/slas', { person: device.admin });
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'New SLA' }).first().click();
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Gold');
    await dialog.getByRole('textbox', { name: /^The newest snapshot/ }).fill('1.5');
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Create SLA' }).click();
    const gold = page.getByRole('row').filter({ hasText: 'Gold' });
    await gold.getByText('1 h 30 min').waitFor();
    await gold.getByRole('button', { name: 'Change' }).click();
    await dialog.getByRole('checkbox', { name: 'Active' }).uncheck();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await gold.getByText('Switched off').waitFor();
    await gold.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No SLAs').waitFor();
  });

  it('rotate a key, and hand out the recovery kit of another', async () => {
    const page = await dashboard.open('/backup/keys', { person: device.admin, isProven: true });
    const dialog = page.getByRole('dialog');
    const main = page.getByRole('row').filter({ hasText: 'Main' });
    await main.getByRole('button', { name: 'Rotate' }).click();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await main.getByRole('cell', { name: '2', exact: true }).waitFor();
    await page
      .getByRole('row')
      .filter({ hasText: 'Known' })
      .getByRole('button', { name: 'Recovery kit' })
      .click();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      dialog.getByRole('button', { name: 'Download the kit' }).click(),
    ]);
    expect(file.suggestedFilename()).to.equal('recovery-kit Known.json');
    const kit = JSON.parse(await readFile(await file.path(), 'utf8'));
    expect(kit.passwords).to.have.length(1);
  });

  it('can be used by everybody', async () => {
    const page = await dashboard.open('/backup/snapshots', { person: device.admin });
    await page.getByRole('table', { name: 'Snapshots' }).waitFor();
    await assertAccessible(page);
    for (const [address, name] of Object.entries(LISTS)) {
      await page.goto(address);
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
      await eventually(
        () => page.getByRole('status').filter({ hasText: '…' }).count(),
        (loading) => loading === 0,
      );
      await assertAccessible(page);
    }
  });
});

function there<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('The device is connected within tests only.');
  return part;
}

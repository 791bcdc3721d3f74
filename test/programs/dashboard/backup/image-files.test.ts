import { mkdtempSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { type MachineDescription, writeMachine } from '../../../../src/engine/index.ts';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import { COMMAND_TYPES, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type RealDevice, realDevice } from '../../features/backup/backup-devices.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { makeDiskImage, needsDiskPrograms, PARTITION_OFFSET } from '../../../support/disk-image.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildPerson } from '../../../support/factories.ts';
import { connectDevice } from '../../../support/fake-device.ts';
import { Keyboard } from '../../../support/keyboard.ts';
import { needsRestic } from '../../../support/restic.ts';

const MIB = 2 ** 20;
const UUID = '0e6a4d3a-3f0b-4a43-a0c4-0f7c2f1d2b11';

describe('the files within images of machines', function () {
  this.timeout(180_000);
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-image-files-'));
  const dashboard = useDashboard({ backupStore: { reserveBytes: 0 }, env: { DATA_DIR: dataDir } });
  const disk = path.join(dataDir, 'system.raw');
  let tenant: BackedUpDevice;
  let machine: RealDevice | undefined;
  let imageId: string;

  before(async function () {
    needsRestic(this);
    needsDiskPrograms(this);
    tenant = await buildBackedUpDevice({ ...dashboard.app, dataDir });
    const files = { 'etc/hostname': 'web-01\n', 'etc/hosts': '127.0.0.1 localhost\n', 'notes.txt': 'Note' };
    await makeDiskImage(disk, { files });
    imageId = await imageOf([disk, await windowsDisk()]);
  });
  after(async () => {
    await machine?.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  /** A disk without partitions, whose first bytes are those of NTFS. */
  async function windowsDisk(): Promise<string> {
    const file = path.join(dataDir, 'windows.raw');
    const content = Buffer.alloc(MIB);
    content.write('NTFS    ', 3, 'latin1');
    await writeFile(file, content);
    return file;
  }

  /** By the real agent and restic. */
  async function imageOf(disks: string[]): Promise<string> {
    const { app } = dashboard;
    machine = await realDevice(app, tenant.orgId);
    const made = { sources: { kind: 'image', disks }, encryptionKeyId: tenant.keyId };
    const { id: configId } = await tenant.createConfig({ ...made, name: 'Machines' });
    await machine.start();
    const { deviceId } = machine;
    await eventually(
      async () => (await tenant.send('GET', `/devices/${deviceId}`)).body,
      ({ status }) => status === 'online',
    );
    const started = await tenant.send('POST', `/backup/jobs/run/${deviceId}`, { configId });
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    const job = await eventually(
      async () => (await tenant.send('GET', `/backup/jobs/${started.body.id}`)).body,
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
    expect(job.error).to.equal(null);
    return job.snapshotId;
  }

  const rowOf = (page: Page, name: string) =>
    page.getByRole('table', { name: 'File systems' }).getByRole('row').filter({ hasText: name });
  const entry = (page: Page, name: string) =>
    page.getByRole('table', { name: 'Files and folders' }).getByRole('row').filter({ hasText: name });

  async function downloaded(
    page: Page,
    begin: () => Promise<void>,
  ): Promise<{ name: string; content: string }> {
    const [file] = await Promise.all([page.waitForEvent('download'), begin()]);
    return { name: file.suggestedFilename(), content: await readFile(await file.path(), 'latin1') };
  }

  it('are found by way of the file systems, and downloaded one by one or as a folder', async () => {
    const page = await dashboard.open(`/backup/snapshots/${imageId}`, { person: tenant.admin });
    await page.getByText('Files', { exact: true }).click();
    const system = rowOf(page, 'system, partition 1');
    await system.getByText('ext2, ext3 or ext4').waitFor();
    const windows = rowOf(page, 'windows').getByRole('button', { name: 'Browse' });
    expect(await windows.getAttribute('aria-disabled')).to.equal('true');
    expect(await windows.getAttribute('aria-description')).to.include('NTFS is not read here');
    await assertAccessible(page);

    await system.getByRole('button', { name: 'Browse' }).click();
    await entry(page, 'notes.txt').getByText('4 B').waitFor();
    await page.getByRole('button', { name: 'etc' }).click();
    await entry(page, 'hosts').waitFor();
    await assertAccessible(page);
    const { pathname, searchParams } = new URL(page.url());
    expect(pathname).to.equal(`/backup/snapshots/${imageId}`);
    expect(Object.fromEntries(searchParams)).to.deep.equal({
      view: 'files',
      disk: 'system',
      partition: '1',
      path: '/etc',
    });
    const file = await downloaded(page, () =>
      entry(page, 'hostname').getByRole('button', { name: 'Download' }).click(),
    );
    expect(file).to.deep.equal({ name: 'hostname', content: 'web-01\n' });
    const folder = await downloaded(page, () =>
      page.getByRole('button', { name: 'Download this folder' }).click(),
    );
    expect(folder.name).to.equal('etc.tar');
    expect(folder.content).to.contain('etc/hosts').and.contain('127.0.0.1 localhost');

    // The address is enough to come back, and the browser knows the way.
    await page.reload();
    await entry(page, 'hostname').waitFor();
    await page.goBack();
    await entry(page, 'notes.txt').waitFor();
    await page.getByRole('button', { name: 'All file systems' }).click();
    await system.waitFor();
    await page.getByText('Machine', { exact: true }).click();
    await page.getByText('Ways back').waitFor();
  });

  it('are restored to a folder of a device, the chosen ones of them', async () => {
    const target = path.join(dataDir, 'restored');
    const page = await dashboard.open(
      `/backup/snapshots/${imageId}?view=files&disk=system&partition=1&path=/etc`,
      { person: tenant.admin },
    );
    await page.getByRole('button', { name: 'Restore to a device …' }).waitFor();
    await page.getByRole('checkbox', { name: 'Choose "hostname" to restore it' }).click();
    await page.getByRole('button', { name: 'Restore 1 chosen to a device …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore', exact: true });
    await dialog.getByText('Everything in the file system').waitFor();
    await dialog.getByText('/etc/hostname').waitFor();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Next' }).click();
    await dialog.getByRole('radio', { name: 'A folder of the device' }).click();
    await dialog.getByRole('textbox', { name: 'Folder' }).fill(target);
    await dialog.getByRole('button', { name: 'Next' }).click();
    await dialog.getByRole('checkbox', { name: 'Only try it' }).click();
    await dialog.getByRole('button', { name: 'Try it' }).click();
    await dialog.getByText('Would be restored').waitFor();
    await dialog.getByText('1 file, 7 B').waitFor();
    await dialog.getByText('system, partition 1').waitFor();
    await assertAccessible(page);
    await dialog.getByRole('button', { name: 'Now restore it' }).click();
    const content = await eventually(
      () => readFile(path.join(target, 'etc/hostname'), 'utf8').catch(() => undefined),
      (found) => found !== undefined,
      30_000,
    );
    expect(content).to.equal('web-01\n');
    await page.goto(new URL('/backup/restores', page.url()).href);
    await page.getByRole('cell', { name: '/etc/hostname of system, partition 1', exact: true }).waitFor();
  });

  it('are reached by keys alone', async () => {
    const page = await dashboard.open(`/backup/snapshots/${imageId}?view=files`, { person: tenant.admin });
    const keys = new Keyboard(page);
    await keys.use(rowOf(page, 'system').getByRole('button', { name: 'Browse' }));
    await keys.use(page.getByRole('button', { name: 'etc' }));
    await entry(page, 'hostname').waitFor();
    const file = await downloaded(page, () =>
      keys.use(entry(page, 'hostname').getByRole('button', { name: 'Download' })),
    );
    expect(file.content).to.equal('web-01\n');
    await keys.use(page.getByRole('button', { name: 'All file systems' }));
    await keys.to(rowOf(page, 'windows').getByRole('button', { name: 'Browse' }));
  });

  it('are seen, and not taken away, by a person who may not restore', async () => {
    const viewer = await buildPerson(dashboard.app, {
      scope: 'organization',
      orgId: tenant.orgId,
      role: SYSTEM_ROLES.organizationViewer,
    });
    const page = await dashboard.open(
      `/backup/snapshots/${imageId}?view=files&disk=system&partition=1&path=/etc`,
      { person: viewer },
    );
    const file = entry(page, 'hostname').getByRole('button', { name: 'Download' });
    expect(await file.getAttribute('aria-description')).to.contain('recovery:execute');
    const folder = page.getByRole('button', { name: 'Download this folder' });
    expect(await folder.getAttribute('aria-description')).to.contain('recovery:execute');
    const restore = page.getByRole('button', { name: 'Restore to a device …' });
    expect(await restore.getAttribute('aria-description')).to.contain('recovery:execute');
    await assertAccessible(page);
  });

  it('are not there if an address names something else, and the page says so', async () => {
    dashboard.allow(/status of 40[04]/);
    const open = (query: string) =>
      dashboard.open(`/backup/snapshots/${imageId}?view=files&${query}`, { person: tenant.admin });
    const gone = await open('disk=system&partition=1&path=/none');
    await gone.getByRole('alert').waitFor();
    await assertAccessible(gone);
    await gone.getByRole('button', { name: 'system, partition 1' }).click();
    await entry(gone, 'notes.txt').waitFor();
    const other = await open('disk=sdz');
    await other.getByRole('alert').waitFor();
    await other.getByRole('button', { name: 'All file systems' }).click();
    await rowOf(other, 'system, partition 1').waitFor();
  });

  describe('that hosts of KVM have saved', () => {
    let saved: BackupSnapshot;

    const guest = (id: string, name: string) => ({
      id,
      name,
      folder: id,
      generation: null,
      bootMode: 'bios' as const,
      memoryBytes: 2 * 1024 ** 3,
      processors: 2,
      consistency: 'crash' as const,
      bytes: 64 * MIB,
    });
    const described = (name: string, of: MachineDescription['disks'][number]): MachineDescription => ({
      format: 'muster-machine',
      version: 1,
      source: 'kvm',
      machine: name,
      system: null,
      takenAt: '2026-11-24T06:00:00.000Z',
      bootMode: 'bios',
      consistency: 'crash',
      memoryBytes: null,
      processors: null,
      hardware: null,
      fstab: `# <device> <place>\nUUID=${UUID.toUpperCase()} /srv ext4 defaults 0 2\n`,
      disks: [of],
    });
    const disks = { sectorBytes: 512, model: null, serial: null, partitionTable: null };
    const volume = { type: 'ext', uuid: UUID, label: 'data', content: 'whole' } as const;

    async function archive(machine: MachineDescription, content: Buffer): Promise<Buffer> {
      const pieces: Uint8Array[] = [];
      const written = writeMachine(machine, async function* () {
        yield content;
      });
      for await (const piece of written) pieces.push(piece);
      return Buffer.concat(pieces);
    }

    before(async () => {
      const content = await readFile(disk);
      const broken = Buffer.alloc(MIB);
      const whole = { ...disks, name: 'vda', sizeBytes: content.length };
      const place = { partition: 1, offset: PARTITION_OFFSET, sizeBytes: content.length - 2 * MIB };
      const machines = [guest('guest-1', 'mail'), guest('guest-2', 'files')];
      await tenant.write({
        'muster-machines.json': JSON.stringify({ version: 1, hypervisor: 'kvm', machines }),
        'guest-1/machine.tar': await archive(
          described('mail', {
            ...disks,
            name: 'vda',
            sizeBytes: MIB,
            volumes: [{ partition: null, offset: 0, sizeBytes: MIB, ...volume }],
          }),
          broken,
        ),
        'guest-2/machine.tar': await archive(
          described('files', { ...whole, volumes: [{ ...place, ...volume }] }),
          content,
        ),
      });
      const details = { kind: 'machines' as const, hypervisor: 'kvm' as const, machines };
      saved = await tenant.backUp({ details, backupType: 'system_image' });
    });

    it('are those of one machine at a time, and a file system that is none is named', async () => {
      dashboard.allow(/status of 409/);
      const page = await dashboard.open(`/backup/snapshots/${saved.id}?view=files`, { person: tenant.admin });
      await rowOf(page, 'vda').getByText('/srv').waitFor();
      await assertAccessible(page);
      await rowOf(page, 'vda').getByRole('button', { name: 'Browse' }).click();
      await page
        .getByRole('alert')
        .getByText(/file system/)
        .waitFor();
      await assertAccessible(page);

      await page.getByRole('combobox', { name: 'Machine' }).click();
      await page.getByRole('option', { name: 'files' }).click();
      const found = rowOf(page, 'vda, partition 1');
      await found.getByText('data', { exact: true }).waitFor();
      await found.getByRole('button', { name: 'Browse' }).click();
      const file = await downloaded(page, () =>
        entry(page, 'notes.txt').getByRole('button', { name: 'Download' }).click(),
      );
      expect(file).to.deep.equal({ name: 'notes.txt', content: 'Note' });
      expect(new URL(page.url()).searchParams.get('machine')).to.equal('guest-2');
    });

    it('come back with their machine, as one that is chosen', async () => {
      const host = await connectDevice(dashboard.app, tenant.device.token, {
        capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
      });
      try {
        const page = await dashboard.open(`/backup/snapshots/${saved.id}`, { person: tenant.admin });
        await page.getByRole('combobox', { name: 'Which machine' }).click();
        await page.getByRole('option', { name: 'files' }).click();
        expect(await page.getByRole('button', { name: 'Restore a disk …' }).count()).to.equal(0);
        await assertAccessible(page);
        await page.getByRole('button', { name: 'Start a machine …' }).click();
        const dialog = page.getByRole('dialog', { name: 'Start a machine from the snapshot' });
        expect(await dialog.getByRole('textbox', { name: 'Name' }).inputValue()).to.equal('files');
        await assertAccessible(page);
        await dialog.getByRole('button', { name: 'Start the machine' }).click();
        const frame = await host.nextCommand();
        expect(frame.type).to.equal('backup.vm-instant-boot');
        expect(frame.payload).to.deep.include({
          vmName: 'files',
          imagePath: `${tenant.folder}/guest-2/machine.tar`,
        });
      } finally {
        host.close();
      }
    });
  });
});

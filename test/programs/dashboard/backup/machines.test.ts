import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import type { BackupSnapshot } from '../../../../src/features/backup/snapshot.model.ts';
import { refreshAll } from '../../../../src/features/machine-recovery/vm-restore.work.ts';
import { SYSTEM_ROLES } from '../../../../src/features/users/index.ts';
import {
  COMMAND_TYPES,
  type CommandFrame,
  hypervisorCapability,
  type ImageDetails,
  type Machine,
  SECRETS_CAPABILITY,
} from '../../../../src/protocol/index.ts';
import { type BackedUpDevice, buildBackedUpDevice } from '../../../support/backup/snapshot-support.ts';
import { inSystem } from '../../../support/backup/store-support.ts';
import { assertAccessible, useDashboard } from '../../../support/browser.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildPerson, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { needsRestic } from '../../../support/restic.ts';

const ABLE = [...COMMAND_TYPES, SECRETS_CAPABILITY, hypervisorCapability('hyperv')];
const VM_ID = '00000000-0000-4000-8000-000000000001';
const CHECKPOINT_ID = '00000000-0000-4000-8000-000000000002';
const LISTED: Machine = {
  id: VM_ID,
  name: 'Mail',
  state: 'running',
  bootMode: 'uefi',
  generation: 2,
  memoryBytes: 2 ** 31,
  processors: 2,
  disks: [
    { path: String.raw`D:\mail.vhdx`, sizeBytes: 2 ** 30, isPassthrough: false },
    { path: '', sizeBytes: null, isPassthrough: true },
  ],
  tracksChanges: null,
  checkpoints: [{ id: CHECKPOINT_ID, name: 'Before the upgrade', parentId: null, createdAt: 'some day' }],
};

const IMAGE: ImageDetails = {
  kind: 'image',
  source: 'disk',
  machine: 'web-01',
  disks: [
    { name: 'sda', sizeBytes: 3 * 2 ** 30, offset: 4096, sectorBytes: 512 },
    { name: 'sdb', sizeBytes: 2 ** 30, offset: 4 * 2 ** 30, sectorBytes: 512 },
  ],
  bootMode: 'uefi',
  consistency: 'crash',
  memoryBytes: 4 * 2 ** 30,
  processors: 2,
  system: 'Debian GNU/Linux 12',
};
const BOOTED = {
  state: 'running',
  folder: '/var/lib/muster/machines/1',
  console: '/var/lib/muster/machines/1/console.sock',
  forwards: [{ hostPort: 40_022, guestPort: 22 }],
  accelerator: 'tcg',
  warnings: ['The machine had a network card that its host does not know.'],
  seconds: { mount: 0.5, overlay: 0.1, start: 0.2 },
};

describe('the pages of virtual machines and of machines that come back', () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'muster-machines-'));
  const dashboard = useDashboard({ backupStore: { reserveBytes: 0 }, env: { DATA_DIR: dataDir } });
  let tenant: BackedUpDevice;
  let enrolled: EnrolledDevice;
  let agent: FakeDevice;

  before(async function () {
    this.timeout(120_000);
    needsRestic(this);
    tenant = await buildBackedUpDevice({ ...dashboard.app, dataDir });
    enrolled = await buildDevice(dashboard.app, tenant.orgId);
    await inSystem(dashboard.app, (tx) =>
      tx('devices').where({ id: enrolled.deviceId }).update({ os_type: 'windows', capabilities: ABLE }),
    );
    agent = await connectDevice(dashboard.app, enrolled.token, { capabilities: ABLE });
  });
  after(async () => {
    // Where restic is missing, there is none.
    (agent as FakeDevice | undefined)?.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('lists what a host has, and asks before something can be lost', async () => {
    const page = await dashboard.open(`/backup/machines?device=${enrolled.deviceId}`, {
      person: tenant.admin,
    });
    await page.getByText('No machines are known').waitFor();
    await page.getByRole('button', { name: 'Look for machines' }).click();
    const asked = await agent.nextCommand();
    expect(asked.type).to.equal('backup.vm-list');
    await agent.succeed(asked, { machines: [LISTED], truncated: false });
    const row = page.getByRole('row').filter({ hasText: 'Mail' });
    await row.getByText('Running').waitFor();
    await assertAccessible(page);
    await row.getByRole('button', { name: 'Open' }).click();
    const drawer = page.getByRole('dialog', { name: 'Machine Mail' });
    await drawer.getByRole('row', { name: 'Without a name A disk of the host' }).waitFor();
    await drawer.getByRole('row', { name: /^Before the upgrade Not known/ }).waitFor();
    const refused = (name: string) => drawer.getByRole('button', { name }).getAttribute('aria-description');
    expect(await refused('Start')).to.include('“Running”');
    expect(await refused('Back up now')).to.include('a disk of the host');
    await assertAccessible(page);

    await drawer.getByRole('button', { name: 'Turn off …' }).click();
    const question = page.getByRole('dialog', { name: 'Turn off: Mail' });
    await question.getByText('It is like a power cut').waitFor();
    await question.getByRole('button', { name: 'Turn off' }).click();
    const order = await agent.nextCommand();
    expect(order).to.deep.include({ type: 'backup.vm-state' });
    expect(order.payload).to.deep.include({ state: 'force_stop' });
    await drawer.getByText('The device was asked to do it.').waitFor();
    await agent.succeed(order, { machine: null });
    // What has changed is read by itself.
    const again = await agent.nextCommand();
    expect(again.type).to.equal('backup.vm-list');
    await agent.succeed(again, { machines: [{ ...LISTED, state: 'off' }], truncated: false });
    await drawer.getByRole('row', { name: 'State Off' }).waitFor();
    await drawer.getByText('The device has done it.').waitFor();

    await drawer.getByRole('button', { name: 'Go back' }).click();
    const back = page.getByRole('dialog', { name: 'Go back to “Before the upgrade”' });
    await back.getByText('What “Mail” has written since then is lost.').waitFor();
    await assertAccessible(page);
    await back.getByRole('button', { name: 'Go back' }).click();
    const applied = await agent.nextCommand();
    expect(applied).to.deep.include({ type: 'backup.vm-checkpoint' });
    expect(applied.payload).to.deep.include({ action: 'apply' });
  });

  it('asks the hosts of another hypervisor if that is chosen', async () => {
    const kvm = await buildDevice(dashboard.app, tenant.orgId);
    const capabilities = [...COMMAND_TYPES, SECRETS_CAPABILITY, hypervisorCapability('kvm')];
    await inSystem(dashboard.app, (tx) =>
      tx('devices').where({ id: kvm.deviceId }).update({ os_type: 'linux', capabilities }),
    );
    const host = await connectDevice(dashboard.app, kvm.token, { capabilities });
    try {
      const page = await dashboard.open(`/backup/machines?device=${kvm.deviceId}`, { person: tenant.admin });
      await page.getByText('KVM', { exact: true }).click();
      await page.getByRole('button', { name: 'Look for machines' }).click();
      const asked = await host.nextCommand();
      expect(asked.payload).to.deep.equal({ hypervisor: 'kvm' });
      await host.succeed(asked, { machines: [{ ...LISTED, name: 'web' }], truncated: false });
      await page.getByRole('row').filter({ hasText: 'web' }).getByRole('button', { name: 'Open' }).click();
      const drawer = page.getByRole('dialog', { name: 'Machine web' });
      await drawer.getByRole('row', { name: 'Hypervisor KVM' }).waitFor();
      await assertAccessible(page);
      await drawer.getByRole('button', { name: 'Pause' }).click();
      const paused = await host.nextCommand();
      expect(paused.payload).to.include({ hypervisor: 'kvm', state: 'pause' });
      await host.fail(paused, 'MACHINE_BUSY', 'A backup of the machine is going on.');
      await drawer.getByText('A backup of the machine is going on.').waitFor();
    } finally {
      host.close();
    }
  });

  it('says of a Windows device which programs take no part in shadow copies', async () => {
    const page = await dashboard.open(`/devices/${enrolled.deviceId}?tab=backup`, { person: tenant.admin });
    await page.getByRole('button', { name: 'Ask the device' }).click();
    const asked = await agent.nextCommand();
    expect(asked.type).to.equal('backup.vss-status');
    const writer = { writerId: VM_ID, instanceId: null, lastError: 'No error' };
    await agent.succeed(asked, {
      status: 'failed',
      writers: [
        { ...writer, name: 'System Writer', state: 1, status: 'stable' },
        { ...writer, name: 'SqlServerWriter', state: 8, status: 'failed', lastError: 'Non-retryable error' },
      ],
      writerCount: 501,
      providers: [],
    });
    await page.getByText('Some programs did not take part the last time').waitFor();
    const writers = page.getByRole('table', { name: 'Writers of shadow copies' }).getByRole('row');
    expect(await writers.nth(1).textContent()).to.contain('SqlServerWriterFailedNon-retryable error');
    await page.getByText('Only the first 2 of 501 are listed.').waitFor();
    await assertAccessible(page);
    dashboard.allow(/status of 502/);
    await page.getByRole('button', { name: 'Ask again' }).click();
    await agent.fail(await agent.nextCommand(), 'ELEVATION_NEEDED', 'The agent must run as SYSTEM for that.');
    await page.getByText('The agent must run as SYSTEM for that.').waitFor();
  });

  describe('that come back from an image', () => {
    let image: BackupSnapshot;
    let host: FakeDevice;

    before(async () => {
      await tenant.write({ 'disk.img': 'a whole disk' });
      image = await tenant.backUp({ backupType: 'system_image', details: IMAGE });
      host = await connectDevice(dashboard.app, tenant.device.token, {
        capabilities: [...COMMAND_TYPES, SECRETS_CAPABILITY],
      });
    });
    after(() => (host as FakeDevice | undefined)?.close());

    const openSnapshot = (isProven = false) =>
      dashboard.open(`/backup/snapshots/${image.id}`, { person: tenant.admin, isProven });
    /** The next command. The server may also ask by itself what the machines are doing. */
    const next = async (type: string): Promise<CommandFrame> => {
      const frame = await host.nextCommand();
      return frame.type === type ? frame : next(type);
    };
    const refresh = async (boots: object[]) => {
      const { jobPool: db } = dashboard.app.server.database;
      const asked = refreshAll({ db, hub: dashboard.app.server.hub }, AbortSignal.timeout(20_000));
      await host.succeed(await next('backup.vm-boots'), { boots });
      await asked;
    };

    it('start from the snapshot, are looked after, become permanent, and are discarded', async () => {
      const page = await openSnapshot();
      await page.getByRole('button', { name: 'Start a machine …' }).click();
      const dialog = page.getByRole('dialog', { name: 'Start a machine from the snapshot' });
      await dialog.getByRole('row', { name: 'Disks 2 disks, 4 GiB at most' }).waitFor();
      expect(await dialog.getByRole('textbox', { name: 'Memory in MiB' }).inputValue()).to.equal('4096');
      await dialog.getByRole('textbox', { name: 'Ports to reach' }).fill('22, 99999');
      await assertAccessible(page);
      dashboard.allow(/status of 400/);
      const submit = dialog.getByRole('button', { name: 'Start the machine' });
      await submit.click();
      await dialog.getByText(/65535/).first().waitFor();
      await dialog.getByRole('textbox', { name: 'Ports to reach' }).fill('22');
      await submit.click();
      const frame = await next('backup.vm-instant-boot');
      expect(frame.payload).to.deep.include({
        vmName: 'web-01',
        memoryMb: 4096,
        cpuCount: 2,
        network: { type: 'user', isIsolated: true, forwards: [22] },
      });
      const drawer = page.getByRole('dialog', { name: 'Machine of a snapshot' });
      await drawer.getByText('Starting', { exact: true }).waitFor();
      const discard = drawer.getByRole('button', { name: 'Discard …' });
      expect(await discard.getAttribute('aria-description')).to.contain('still at work');
      await host.succeed(frame, BOOTED);
      await drawer.getByText('127.0.0.1:40022').waitFor();
      await drawer.getByText('The machine had a network card').waitFor();
      await drawer.getByRole('row', { name: 'Speed Slow: its processors are emulated' }).waitFor();
      expect(
        await drawer.getByRole('button', { name: 'Start again' }).getAttribute('aria-description'),
      ).to.equal('It is running.');
      await assertAccessible(page);

      // The host was restarted, and does not find the snapshot.
      const { restoreId } = frame.payload as { restoreId: string };
      await refresh([{ restoreId, state: 'stopped', isPermanent: false, isBaseThere: false }]);
      await drawer.getByText('Everything that it has written is kept on the host.').waitFor();
      await drawer.getByText('The machine has lost its snapshot').waitFor();
      const migrate = drawer.getByRole('button', { name: 'Make permanent …' });
      expect(await migrate.getAttribute('aria-description')).to.contain('Start it again first');
      await assertAccessible(page);
      await drawer.getByRole('button', { name: 'Start again' }).click();
      await host.succeed(await next('backup.vm-instant-boot'), BOOTED);
      await drawer.getByText('Running', { exact: true }).waitFor();

      await migrate.click();
      await page.getByRole('button', { name: 'Make it permanent' }).click();
      const copy = await next('backup.vm-migrate');
      await host.send('command:progress', { id: copy.id, seq: 0, phase: 'copying', percent: 40 });
      await drawer.getByText('Copying · 40 %').waitFor();
      await host.succeed(copy, { copiedBytes: 3, seconds: 1 });
      await drawer.getByText('Permanent', { exact: true }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByText('No machine runs from a snapshot').waitFor();

      // The way without a snapshot at hand.
      await page.getByRole('button', { name: 'Start from a snapshot …' }).click();
      const choice = page.getByRole('dialog', { name: 'Choose a snapshot of whole disks' });
      await choice.getByText('2 disks of web-01').waitFor();
      await assertAccessible(page);
      await choice.getByRole('button', { name: 'Choose' }).click();
      await submit.click();
      await host.succeed(await next('backup.vm-instant-boot'), BOOTED);
      await drawer.getByText('127.0.0.1:40022').waitFor();
      await discard.click();
      const question = page.getByRole('dialog', { name: 'Discard web-01' });
      await question.getByText('everything that it has written since its start is lost').waitFor();
      await question.getByRole('button', { name: 'Discard the machine' }).click();
      await host.succeed(await next('backup.vm-discard'), { wasThere: true });
      await drawer.getByText('The machine is gone, and what it had written.').waitFor();
    });

    it('are copied to a host as machines, or disk by disk, and are listed with the restores', async () => {
      const page = await openSnapshot();
      await page.getByRole('button', { name: 'Restore as a machine …' }).click();
      const wizard = page.getByRole('dialog', { name: 'Restore as a machine' });
      await wizard.getByRole('textbox', { name: 'Name' }).fill('web-02');
      const size = wizard.getByRole('textbox', { name: 'Size of the first disk in GiB' });
      const grow = wizard.getByRole('checkbox', { name: 'Use all of the larger disk' });
      expect(await grow.isDisabled()).to.equal(true);
      const forward = wizard.getByRole('button', { name: 'Next' });
      await size.fill('2');
      await wizard.getByText('The first disk needs at least 3 GiB.').waitFor();
      expect(await forward.getAttribute('aria-description')).to.contain('at least 3 GiB');
      await assertAccessible(page);
      await size.fill('8');
      await grow.check();
      await forward.click();
      await wizard.getByRole('combobox', { name: 'Host' }).waitFor();
      await assertAccessible(page);
      await forward.click();
      await wizard.getByRole('radio', { name: 'A bridge of its host' }).check();
      const restore = wizard.getByRole('button', { name: 'Restore', exact: true });
      expect(await restore.getAttribute('aria-description')).to.equal('Name the bridge first.');
      await wizard.getByRole('textbox', { name: 'Bridge' }).fill('br0');
      await restore.click();
      const frame = await next('backup.vm-from-image');
      expect(frame.payload).to.deep.include({
        vmName: 'web-02',
        diskSizeGb: 8,
        grow: true,
        network: { type: 'bridge', bridge: 'br0' },
        start: true,
      });
      const drawer = page.getByRole('dialog', { name: 'Machine of a snapshot' });
      await host.send('command:progress', { id: frame.id, seq: 0, phase: 'writing', percent: 25 });
      await drawer.getByText('Writing · 25 %').waitFor();
      await page.keyboard.press('Escape');
      const row = page.getByRole('row').filter({ hasText: 'web-02' });
      await row.getByText('Being copied').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: /^Jobs: [1-9]/ }).click();
      await page.getByRole('link', { name: 'Machine of a snapshot' }).first().click();
      await drawer.getByRole('button', { name: 'Cancel …' }).click();
      await page.getByRole('button', { name: 'Stop it' }).click();
      await eventually(
        () => host.cancelled,
        (cancelled) => cancelled.includes(frame.id),
      );
      await host.finish(frame, { status: 'cancelled' });
      await drawer.getByText('Cancelled', { exact: true }).waitFor();

      await page.goto(`/backup/snapshots/${image.id}`);
      await page.getByRole('button', { name: 'Restore a disk …' }).click();
      const dialog = page.getByRole('dialog', { name: 'Restore a disk' });
      await dialog.getByRole('combobox', { name: 'Disk' }).click();
      await page.getByRole('option', { name: 'sdb, 1 GiB' }).click();
      await dialog.getByRole('radio', { name: 'A whole disk' }).check();
      await dialog.getByRole('textbox', { name: 'Disk of the device' }).fill('/dev/sdc');
      await dialog.getByText('Everything that is on /dev/sdc is lost.').waitFor();
      await dialog.getByRole('checkbox', { name: 'Everything on that disk may be lost' }).check();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Restore', exact: true }).click();
      const order = await host.nextCommand();
      expect(order.payload).to.deep.include({ targetPath: '/dev/sdc' });
      await page
        .getByRole('dialog', { name: 'Restore', exact: true })
        .getByRole('row', { name: 'Disk sdb' })
        .waitFor();
    });

    it('become files for Hyper-V, of which no machine is made', async () => {
      const page = await openSnapshot();
      await page.getByRole('button', { name: 'Restore as a machine …' }).click();
      const wizard = page.getByRole('dialog', { name: 'Restore as a machine' });
      const forward = wizard.getByRole('button', { name: 'Next' });
      await forward.click();
      await wizard.getByRole('radio', { name: 'vhdx' }).check();
      expect(await forward.getAttribute('aria-description')).to.equal('Name the folder for the files first.');
      await assertAccessible(page);
      const folder = wizard.getByRole('textbox', { name: 'Folder' });
      await folder.fill('disks');
      await forward.click();
      await wizard.getByText('Files for Hyper-V have no network').waitFor();
      expect(await wizard.getByRole('checkbox', { name: 'Start the machine' }).count()).to.equal(0);
      dashboard.allow(/status of 400/);
      const restore = wizard.getByRole('button', { name: 'Restore', exact: true });
      await restore.click();
      // The refusal leads back to the field that it is about.
      await wizard.locator('[aria-invalid=true]').and(folder).waitFor();
      await folder.fill('/srv/disks');
      await forward.click();
      await restore.click();
      const frame = await next('backup.vm-from-image');
      expect(frame.payload).to.deep.include({ format: 'vhdx', targetPath: '/srv/disks', start: false });
      await host.finish(frame, { status: 'cancelled' });
    });

    it('come back onto an empty machine by a token, which is shown once, watched and revoked', async () => {
      const page = await openSnapshot(true);
      await page.getByRole('button', { name: 'New recovery token …' }).click();
      const dialog = page.getByRole('dialog', { name: 'New recovery token' });
      await dialog.getByRole('radio', { name: 'Some disks' }).check();
      await dialog.getByRole('checkbox', { name: 'sda, 3 GiB' }).check();
      await assertAccessible(page);
      await dialog.getByRole('button', { name: 'Create the token' }).click();
      const made = page.getByRole('dialog', { name: 'Copy the token now: it is shown only once' });
      const token = (await made.getByLabel('Recovery token', { exact: true }).textContent()) ?? '';
      expect(token).to.match(/^mrec_/);
      expect(await made.getByLabel('Command of the recovery', { exact: true }).textContent()).to.match(
        /^muster-agent recover --server \S+ --token - --target /,
      );
      await assertAccessible(page);
      await made.getByRole('button', { name: 'Watch the recovery' }).click();
      const drawer = page.getByRole('dialog', { name: 'Recovery token' });
      await drawer.getByText('It was not used yet.').waitFor();
      expect(await page.content()).not.to.contain(token);

      const call = (what: string, body: object) =>
        dashboard.app.call('POST', `/backup/bmr/${what}`, { body: { token, ...body } });
      const machine = { hostname: 'rescue', agentVersion: '1.0.0', bootMode: 'uefi' };
      const { session } = (await call('authenticate', { machine })).body;
      await drawer.getByText('In use').waitFor();
      await call('progress', { session, progress: { phase: 'writing', disk: 'sda', done: 300, total: 400 } });
      await drawer.getByText(/^Writing · 75 %/).waitFor();
      const result = { bytesRestored: 3 * 2 ** 30, warnings: ['The sectors of the disk have 4 KiB.'] };
      const checks = [
        { name: 'read back', ok: true },
        { name: 'boot loader', ok: false, message: 'There is none for UEFI.' },
      ];
      await call('complete', {
        session,
        result: {
          ...result,
          status: 'partial',
          validated: false,
          disks: [{ disk: 'sda', target: '/dev/nvme0n1', sha256: 'a'.repeat(64), continuedFrom: 0, checks }],
          error: null,
        },
      });
      await drawer.getByText('A check has failed').waitFor();
      await drawer.getByRole('row', { name: /^sda .*boot loader: There is none for UEFI\.$/ }).waitFor();
      await assertAccessible(page);
      const revoke = drawer.getByRole('button', { name: 'Revoke …' });
      expect(await revoke.getAttribute('aria-description')).to.contain('opens nothing any more');
      await page.keyboard.press('Escape');
      await drawer.waitFor({ state: 'detached' });

      await tenant.send('POST', '/backup/bmr/token', { snapshotId: image.id });
      await page.reload();
      const row = page.getByRole('row').filter({ hasText: 'Active' });
      await row.getByRole('button', { name: 'Revoke …' }).click();
      await page.getByRole('button', { name: 'Revoke the token' }).click();
      await page.getByRole('row').filter({ hasText: 'Revoked' }).waitFor();
      await assertAccessible(page);
    });

    it('are offered to nobody who may not bring them back, and the reason is said', async () => {
      const viewer = await buildPerson(dashboard.app, {
        scope: 'organization',
        orgId: tenant.orgId,
        role: SYSTEM_ROLES.organizationViewer,
      });
      const page = await dashboard.open(`/backup/snapshots/${image.id}`, { person: viewer });
      const reason = (name: string) => page.getByRole('button', { name }).getAttribute('aria-description');
      for (const name of [
        'Start a machine …',
        'Restore as a machine …',
        'Restore a disk …',
        'New recovery token …',
      ]) {
        expect(await reason(name), name).to.contain('recovery:execute');
      }
    });
  });
});

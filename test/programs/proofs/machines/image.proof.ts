import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { startAgent } from '../../../support/agent-program.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { type RealDevice, realDevice } from '../../features/backup/backup-devices.ts';
import { createStoreApp } from '../../../support/backup/store-support.ts';
import { buildGuestDisk, changeGuest, type GuestDisk } from './guest-disk.ts';
import { needsMachines, startGuest } from './run-guest.ts';

const MIB = 2 ** 20;
const PAGE = '/srv/www/index.html';

/** Images of a real machine through the real server, agent and store, which boot again in qemu. */
describe('the image of a machine that boots', function () {
  this.timeout(1_200_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let folder: string;
  let guest: GuestDisk;
  const snapshots: string[] = [];

  before(async function () {
    needsRestic(this);
    needsMachines(this);
    folder = await mkdtemp(path.join(tmpdir(), 'muster-machines-'));
    guest = await buildGuestDisk(path.join(folder, 'disk.raw'), { page: 'the first state' });
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    await tenant.createConfig({ sources: { kind: 'image', disks: [guest.file] }, isDefault: true });
    await device.start();
    await eventually(
      async () => read(`/devices/${device.deviceId}`),
      ({ status }) => status === 'online',
      60_000,
    );
  });
  after(async () => {
    await device?.close();
    await app?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const at = (name: string) => path.join(folder, name);
  const read = async (where: string) => (await tenant.send('GET', where)).body;
  const backUp = async () => {
    const { status, body } = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
    expect(status, JSON.stringify(body)).to.equal(201);
    const job = await eventually(
      () => read(`/backup/jobs/${body.id}`),
      ({ finishedAt }) => finishedAt !== null,
      300_000,
    );
    expect(job.error).to.equal(null);
    snapshots.push(job.snapshotId);
    return job as { addedBytes: number; addedSize: number };
  };
  const pageOf = async (disk: string, firmware: 'bios' | 'uefi') => {
    const running = await startGuest({ disk, firmware, isReadOnly: true });
    try {
      return await running.page();
    } finally {
      await running.stop();
    }
  };
  const recover = (token: string, target: string, ...more: string[]) => {
    const where = ['--server', app.url, '--target', target, '--state', at('state')];
    return startAgent(['recover', ...where, '--token', token, '--insecure-http', '--force', ...more]);
  };
  const newToken = async (snapshotId: string | undefined) => {
    const { status, body } = await tenant.send('POST', '/backup/bmr/token', { snapshotId });
    expect(status, JSON.stringify(body)).to.equal(201);
    return body as { id: string; token: string };
  };

  it('is backed up, and a second time adds little', async () => {
    await backUp();
    const [first] = snapshots;
    const { addedBytes: whole } = await read(`/backup/snapshots/${first}`);
    await changeGuest(guest.file, { [PAGE]: 'the second state' });
    await backUp();
    const { addedBytes: more, details } = await read(`/backup/snapshots/${snapshots[1]}`);
    // oxlint-disable-next-line no-console -- the figures of the proof
    console.log(`      first ${Math.round(whole / MIB)} MiB, then ${Math.round(more / MIB)} MiB`);
    expect(whole).to.be.greaterThan(300 * MIB);
    expect(more).to.be.lessThan(whole / 10);
    expect(details.disks[0].sizeBytes).to.equal(guest.sizeBytes);
  });

  it('comes back as a file with the content of its time, and boots through BIOS', async () => {
    const targetPath = at('restored.raw');
    const order = { snapshotId: snapshots[0], restoreType: 'image', targetPath };
    const { status, body } = await tenant.send('POST', '/backup/restore', order);
    expect(status, JSON.stringify(body)).to.equal(201);
    const restore = await eventually(
      () => read(`/backup/restore/${body.id}`),
      ({ completedAt }) => completedAt !== null,
      300_000,
    );
    expect(restore).to.include({ status: 'completed', error: null });
    expect(await pageOf(targetPath, 'bios')).to.equal('the first state');
  });

  it('comes back onto a larger empty disk after a kill in the middle, and boots through UEFI', async () => {
    const target = at('bare.raw');
    const disk = await open(target, 'w');
    await disk.truncate(guest.sizeBytes + 512 * MIB);
    await disk.close();
    const { id, token } = await newToken(snapshots[1]);
    const first = recover(token, target, '--grow');
    await eventually(
      () => first.output(),
      (text) => /writing, [2-9]0 %/.test(text),
      300_000,
    );
    first.child.kill('SIGKILL');
    await first.ended;
    const second = recover(token, target, '--grow');
    expect(await second.ended, second.output()).to.equal(0);
    const { status, result } = await read(`/backup/bmr/token/${id}`);
    expect(status).to.equal('used');
    expect(result.validated).to.equal(true);
    // oxlint-disable-next-line no-console -- the figures of the proof
    console.log(`      went on from ${Math.round(result.disks[0].continuedFrom / MIB)} MiB`);
    expect(result.disks[0].continuedFrom).to.be.greaterThan(0);
    expect(await pageOf(target, 'uefi')).to.equal('the second state');
  });
});

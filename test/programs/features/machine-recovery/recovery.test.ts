import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { recover } from '../../../../src/agent/capabilities/images/recover.ts';
import type { DiskPlace } from '../../../../src/engine/index.ts';
import { environmentNetwork } from '../../../../src/agent/os/network/network.ts';
import { openPrivateFolder } from '../../../../src/agent/os/files/private-folder.ts';
import { startAgent } from '../../../support/agent-program.ts';
import { checkFileSystem, fileOn, makeDiskImage, needsDiskPrograms } from '../../../support/disk-image.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import type { TestApp } from '../../../support/test-app.ts';
import { type BackupTenant, buildBackupTenant } from '../../../support/backup/backup-support.ts';
import { type RealDevice, realDevice } from '../backup/backup-devices.ts';
import { createStoreApp } from '../../../support/backup/store-support.ts';

const MIB = 2 ** 20;
const hashOf = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');

/** From a configuration to a machine that has its disk again: the real server, store, agent and restic. */
describe('the image of a machine', function () {
  this.timeout(120_000);
  let app: TestApp & { dataDir: string };
  let tenant: BackupTenant;
  let device: RealDevice;
  let snapshotId: string;
  let expected: string;
  /** Not in TMPDIR, which may be in /dev/shm: what is below /dev counts as a disk. */
  let outside: string;
  const at = (...names: string[]) => path.join(app.dataDir, ...names);

  before(async function () {
    needsRestic(this);
    needsDiskPrograms(this);
    outside = await mkdtemp('/tmp/muster-restored-');
    app = await createStoreApp();
    tenant = await buildBackupTenant(app);
    device = await realDevice(app, tenant.orgId);
    const files = { 'etc/hostname': 'web-01\n', 'data.bin': randomBytes(12 * MIB) };
    await makeDiskImage(at('disk.raw'), { files });
    // As if there was a boot loader for BIOS.
    const disk = await open(at('disk.raw'), 'r+');
    await disk.write(Buffer.from('loader'), 0, 6, 0);
    await disk.close();
    expected = await hashOf(at('disk.raw'));
    await tenant.createConfig({
      sources: { kind: 'image', disks: [at('disk.raw')] },
      isDefault: true,
    });
    await device.start();
    await eventually(
      async () => (await tenant.send('GET', `/devices/${device.deviceId}`)).body,
      ({ status }) => status === 'online',
    );
    await mkdir(at('state'));
  });
  after(async () => {
    await device?.close();
    await app?.close();
    if (outside !== undefined) await rm(outside, { recursive: true });
  });

  const read = async (where: string) => (await tenant.send('GET', where)).body;
  const newToken = async (more: object = {}) => {
    const { status, body } = await tenant.send('POST', '/backup/bmr/token', { snapshotId, ...more });
    expect(status, JSON.stringify(body)).to.equal(201);
    return body as { id: string; token: string };
  };

  it('is backed up, and describes the machine', async () => {
    const started = await tenant.send('POST', `/backup/jobs/run/${device.deviceId}`, {});
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    const job = await eventually(
      () => read(`/backup/jobs/${started.body.id}`),
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
    expect(job.error).to.equal(null);
    snapshotId = job.snapshotId;
    const snapshot = await read(`/backup/snapshots/${snapshotId}`);
    expect(snapshot).to.include({ backupType: 'system_image', isPartial: false });
    expect(snapshot.details.disks[0]).to.include({ name: 'disk', sizeBytes: 64 * MIB });
    const machine = await read(`/backup/snapshots/${snapshotId}/machine`);
    expect(machine.places).to.deep.equal(
      snapshot.details.disks.map(({ name, sizeBytes, offset }: DiskPlace) => ({ name, sizeBytes, offset })),
    );
    expect(machine.disks[0].volumes[0]).to.include({ type: 'ext', content: 'allocated' });
  });

  it('shows and gives single files, to those who may have them only', async () => {
    const where = `/backup/snapshots/${snapshotId}`;
    const volume = 'disk=disk&partition=1';
    const folder = await read(`${where}/browse?${volume}&path=/etc`);
    expect(folder).to.deep.include({ path: '/etc', isSettled: true });
    expect(folder.data).to.have.length(1);
    expect(folder.data[0]).to.deep.include({ name: 'hostname', path: '/etc/hostname', sizeBytes: 7 });
    const download = (query: string, headers: Record<string, string> = {}) =>
      fetch(`${app.url}/api/v1${where}/download?${query}`, {
        headers: { authorization: `Bearer ${tenant.admin.token}`, ...headers },
      });
    expect(await (await download(`${volume}&path=/etc/hostname`)).text()).to.equal('web-01\n');
    const part = await download(`${volume}&path=/data.bin`, { range: 'bytes=5000000-5000009' });
    expect([part.status, (await part.arrayBuffer()).byteLength]).to.deep.equal([206, 10]);
    const archive = Buffer.from(await (await download(`${volume}&path=/etc`)).arrayBuffer());
    expect(archive.toString('latin1')).to.contain('etc/hostname').and.contain('web-01\n');

    for (const [wrong, status] of [
      ['disk=sda&partition=1', 400],
      ['disk=disk&partition=2', 400],
      ['disk=disk', 400],
      ['partition=1', 400],
      [`${volume}&machine=web`, 400],
      [`${volume}&path=/none`, 404],
      [`${volume}&path=/../etc/hostname`, 400],
    ] as const) {
      const answer = await tenant.send('GET', `${where}/browse?${wrong}`);
      expect(answer.status, wrong).to.equal(status);
    }
    const other = await buildBackupTenant(app);
    for (const what of ['browse', 'download']) {
      expect((await other.send('GET', `${where}/${what}?${volume}`)).status).to.equal(404);
    }
  });

  it('is proven by files that the server takes out of it', async () => {
    const order = { deviceId: device.deviceId, verificationType: 'test_restore', snapshotId };
    const started = await tenant.send('POST', '/backup/verify', order);
    expect(started.status, JSON.stringify(started.body)).to.equal(201);
    const proof = await eventually(
      async () => (await read(`/backup/verifications?deviceId=${device.deviceId}`)).data[0],
      ({ finishedAt }) => finishedAt !== null,
      60_000,
    );
    expect(proof).to.deep.include({ status: 'passed', errorCode: null, filesFailed: 0, snapshotId });
    expect(proof.details.sample.map((file: { path: string }) => file.path)).to.include.members([
      'disk/1:/etc/hostname',
      'disk/1:/data.bin',
    ]);
  });

  it('comes back as a file of a device', async () => {
    const order = {
      snapshotId,
      restoreType: 'image',
      targetPath: path.join(outside, 'restored', 'web-01.raw'),
    };
    for (const wrong of [
      { targetPath: undefined },
      { targetPath: '/dev/sdz' },
      { overwrite: 'ifNewer' },
      { selectedPaths: ['/machine.tar'] },
      { dryRun: true },
    ]) {
      expect((await tenant.send('POST', '/backup/restore', { ...order, ...wrong })).status).to.equal(400);
    }
    const { status, body } = await tenant.send('POST', '/backup/restore', order);
    expect(status, JSON.stringify(body)).to.equal(201);
    const restore = await eventually(
      () => read(`/backup/restore/${body.id}`),
      ({ completedAt }) => completedAt !== null,
      60_000,
    );
    expect(restore).to.deep.include({
      status: 'completed',
      restoreType: 'image',
      error: null,
      restoredSize: 64 * MIB,
    });
    expect(await hashOf(order.targetPath)).to.equal(expected);
  });

  it('comes back onto an empty disk by the command of the rescue system', async () => {
    const target = at('empty.raw');
    const disk = await open(target, 'w');
    await disk.truncate(80 * MIB);
    await disk.close();
    const { id, token } = await newToken();
    const { code, output } = await runRecover(token, target, '--grow');
    expect(code, output).to.equal(0);
    expect(output).to.contain('The recovery is complete.').and.not.contain(token);
    checkFileSystem(target);
    expect(fileOn(target, 'etc/hostname')).to.equal('web-01\n');
    const shown = await read(`/backup/bmr/token/${id}`);
    expect(shown).to.deep.include({ status: 'used', sessionStatus: 'completed' });
    expect(shown.result).to.deep.include({ validated: true, bytesRestored: 64 * MIB });
    expect(shown.result.disks[0].sha256).to.equal(expected);
    expect((await failureOf(recovering(token, 'other'))).message).to.match(/has been used/);
  });

  const runRecover = async (token: string, target: string, ...more: string[]) => {
    const state = ['--state', at('state'), '--insecure-http', '--force'];
    const args = ['recover', '--server', app.url, '--token', token, '--target', target];
    const program = startAgent([...args, ...state, ...more]);
    return { code: await program.ended, output: program.output() };
  };

  /** The same in this process. */
  const recovering = async (
    token: string,
    name: string,
    more: Partial<Parameters<typeof recover>[0]> = {},
  ) => {
    const network = environmentNetwork({});
    try {
      return await recover({
        server: app.url,
        token,
        target: at(`${name}.raw`),
        grow: false,
        mayOverwrite: false,
        force: false,
        state: await openPrivateFolder(at(`state-of-${name}`)),
        network,
        signal: new AbortController().signal,
        say: () => {},
        machine: { bootMode: 'bios' },
        extentBytes: 4 * MIB,
        ...more,
      });
    } finally {
      network.close();
    }
  };
  const failureOf = (work: Promise<unknown>): Promise<{ code?: string; message: string }> =>
    work.then(
      () => ({ message: 'It has succeeded.' }),
      (error: { code?: string; message: string }) => error,
    );

  it('goes on after an interruption, with the same token and without copying anything twice', async () => {
    const { id, token } = await newToken();
    const interrupted = new AbortController();
    const failure = await failureOf(
      recovering(token, 'interrupted', {
        signal: interrupted.signal,
        onProgress: ({ done }) => void (done >= 21 * MIB && interrupted.abort(new Error('interrupted'))),
      }),
    );
    expect(failure.message).to.equal('interrupted');
    // Nobody else goes on with it, who has no more than the token.
    expect((await failureOf(recovering(token, 'stolen'))).message).to.match(/Another machine has begun/);
    const { disks, status } = await recovering(token, 'interrupted');
    expect(status).to.equal('completed');
    expect(disks[0]).to.deep.include({ sha256: expected, continuedFrom: 20 * MIB });
    expect(await hashOf(at('interrupted.raw'))).to.equal(expected);
    expect(await read(`/backup/bmr/token/${id}`)).to.include({ status: 'used', authentications: 2 });
  });

  it('is not put onto a small disk or a machine that starts in another way, and then the same machine goes on', async () => {
    const { id, token } = await newToken();
    const disk = await open(at('refused.raw'), 'w');
    await disk.truncate(32 * MIB);
    await disk.close();
    const small = await failureOf(recovering(token, 'refused'));
    expect(small).to.include({ code: 'TARGET_TOO_SMALL' });
    expect(small.message).to.contain(`${32 * MIB} bytes more`);
    const shown = await read(`/backup/bmr/token/${id}`);
    expect(shown).to.deep.include({ status: 'authenticated', sessionStatus: 'failed' });
    await rm(at('refused.raw'));
    const crossed = await failureOf(recovering(token, 'refused', { machine: { bootMode: 'uefi' } }));
    expect(crossed).to.include({ code: 'BOOT_MODE_DIFFERS' });
    const forced = await recovering(token, 'refused', { machine: { bootMode: 'uefi' }, force: true });
    expect(forced.status).to.equal('completed');
  });
});

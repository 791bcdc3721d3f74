import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { expect } from 'chai';
import {
  checkFileSystem,
  fileOn,
  fileSystemOf,
  makeDiskImage,
  needsDiskPrograms,
  onDisk,
} from '../../../../support/disk-image.ts';
import { needsRestic } from '../../../../support/restic.ts';
import { type MachineBench, openMachineBench } from '../../../proofs/machines/kvm/machine-bench.ts';

/** The disks of a snapshot as files for a hypervisor, made by the agent with the real restic and qemu-img. */
describe('the disks of a machine of a snapshot', function () {
  this.timeout(120_000);
  let bench: MachineBench;
  let stored: Awaited<ReturnType<MachineBench['store']>>;

  before(async function () {
    needsRestic(this);
    needsDiskPrograms(this);
    const isThere = ['qemu-img', 'qemu-system-x86_64'].every(
      (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0,
    );
    if (!isThere) {
      // oxlint-disable-next-line no-console -- a test that does not run has to say so
      console.warn('      skipped: qemu is not installed ("apt-get install qemu-system-x86 qemu-utils")');
      this.skip();
    }
    bench = await openMachineBench();
    const files = { 'etc/hostname': 'web-01\n' };
    await makeDiskImage(bench.at('disk.raw'), { sizeMib: 40, files });
    stored = await bench.store([bench.at('disk.raw')]);
    await mkdir(bench.at('target'), { mode: 0o700 });
  });
  after(async () => bench?.close());

  it('are made for Hyper-V, larger with their partition and file system if that is wanted', async () => {
    const wanted = { ...bench.wanted(stored), targetPath: bench.at('target'), timeoutSeconds: 100 };
    const order = { ...wanted, format: 'vhdx', start: false, diskSizeGb: 1, grow: true };
    const made = await bench.run('backup.vm-from-image', order);
    expect(made).to.deep.include({ state: 'stopped', console: null, forwards: [] });
    expect(made.warnings[0]).to.contain('generation 1');
    expect(made.disks[0]).to.include({ name: 'disk0.vhdx', sizeBytes: 1024 ** 3 });
    const file = `${made.folder}/disk0.vhdx`;
    const info = JSON.parse(execFileSync('qemu-img', ['info', '--output=json', file]).toString());
    expect(info.format).to.equal('vhdx');
    const raw = bench.at('checked.raw');
    execFileSync('qemu-img', ['convert', '-O', 'raw', file, raw]);
    checkFileSystem(raw);
    expect(fileOn(raw, 'etc/hostname')).to.equal('web-01\n');
    expect(onDisk('sfdisk', ['--verify', raw])).to.contain('No errors detected');
    const blocks = /Block count: +(\d+)/.exec(onDisk('dumpe2fs', ['-h', fileSystemOf(raw)]))?.[1];
    // Without a loop device, the machine makes it larger.
    if (made.warnings.some((warning) => warning.includes('resize2fs'))) return;
    expect(Number(blocks) * 4096).to.be.greaterThan(1020 * 1024 ** 2);
  });

  it('are refused if they would become smaller, before anything is fetched', async () => {
    const image = {
      ...stored.image,
      disks: stored.image.disks.map((disk) => ({ ...disk, sizeBytes: 2 ** 31 })),
    };
    const wanted = { ...bench.wanted({ ...stored, image }), targetPath: bench.at('target') };
    const order = { ...wanted, format: 'raw', start: false, diskSizeGb: 1, timeoutSeconds: 100 };
    const { code, message } = await bench.failure('backup.vm-from-image', order);
    expect(code).to.equal('IMAGE_UNUSABLE');
    expect(message).to.contain(String(2 ** 31));
    expect(existsSync(`${bench.at('target')}/muster-machine-${wanted.restoreId}`)).to.equal(false);
  });
});

import { createHash, randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { expect } from 'chai';
import {
  copyDisk,
  CopyJournal,
  openImage,
  restoreDisk,
} from '../../../../../src/agent/capabilities/images/restore-disk.ts';
import { folderSource } from '../../../../../src/engine/index.ts';
import {
  checkFileSystem,
  fileSystemOf,
  fileOn,
  makeDiskImage,
  needsDiskPrograms,
  onDisk,
} from '../../../../support/disk-image.ts';
import { PASSWORD } from '../../../engine/engine-support.ts';
import { type BackupBench, openBackupBench } from '../backup/backup-bench.ts';

const MIB = 2 ** 20;
const hashOf = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');

/** What comes back from an image, to a file or onto a larger disk, at once or after interruptions. */
describe('restores of images', function () {
  this.timeout(120_000);
  let bench: BackupBench;
  let snapshotId: string;
  let target: string;
  let expected: string;

  before(async function () {
    needsDiskPrograms(this);
    bench = await openBackupBench(this);
    target = bench.at('restored', 'disk.raw');
    // Without free blocks that hold something, so that the image is the disk, byte by byte.
    const files = { 'etc/hostname': 'web-01\n', 'data.bin': randomBytes(20 * MIB) };
    await makeDiskImage(bench.at('disk.raw'), { files });
    expected = await hashOf(bench.at('disk.raw'));
    snapshotId = (await bench.run('backup.image', {})).snapshotId!;
  });
  beforeEach(async () => {
    await rm(bench.at('restored'), { recursive: true, force: true });
    await mkdir(bench.at('restored'));
  });
  after(async () => bench?.close());

  const imageFrom = (signal = new AbortController().signal) => {
    const { destination, keyHint } = bench.access;
    const repository = { destination, password: PASSWORD, keyHint };
    return openImage({ repository, source: folderSource(destination.path), snapshotId, signal });
  };
  const restoring = async (more: Partial<Parameters<typeof restoreDisk>[0]> = {}) =>
    restoreDisk({
      image: await imageFrom(),
      snapshotId,
      disk: 'disk',
      target,
      mayOverwrite: false,
      keepsSize: true,
      grow: false,
      journalFile: bench.at('data', 'journal'),
      forbidden: bench.at('data'),
      extentBytes: 4 * MIB,
      signal: new AbortController().signal,
      onProgress: () => {},
      ...more,
    });
  const failureOf = async (work: Promise<unknown>): Promise<{ code?: string; message: string }> =>
    work.then(
      () => ({ message: 'It has succeeded.' }),
      (error: { code?: string; message: string }) => error,
    );
  const emptyDisk = async (sizeBytes: number) => {
    const handle = await open(target, 'w');
    await handle.truncate(sizeBytes);
    await handle.close();
  };

  it('are equal byte by byte, sparse, and read back', async () => {
    const id = await bench.send('backup.image-restore', { snapshotId });
    const { output, error } = await bench.ended(id);
    expect(error).to.equal(undefined);
    expect(output).to.deep.include({ status: 'completed', sha256: expected, bytesRestored: 64 * MIB });
    expect(bench.progressOf(id).at(-1)).to.include({ phase: 'verifying', percent: 100 });
    expect(await hashOf(target)).to.equal(expected);
    expect((await stat(target)).blocks * 512).to.be.lessThan(40 * MIB);
    checkFileSystem(target);
    expect(fileOn(target, 'etc/hostname')).to.equal('web-01\n');
  });

  it('replace nothing without being asked to, and follow no link', async () => {
    await writeFile(target, 'precious');
    expect(await bench.failure('backup.image-restore', { snapshotId })).to.include({
      code: 'TARGET_NOT_EMPTY',
    });
    expect(await readFile(target, 'utf8')).to.equal('precious');
    await bench.run('backup.image-restore', { snapshotId, overwrite: 'always' });
    expect(await hashOf(target)).to.equal(expected);

    await rm(target);
    await writeFile(bench.at('outside'), 'precious');
    await symlink(bench.at('outside'), target);
    const failure = await bench.failure('backup.image-restore', { snapshotId, overwrite: 'always' });
    expect(failure).to.include({ code: 'TARGET_UNSAFE' });
    expect(await readFile(bench.at('outside'), 'utf8')).to.equal('precious');
  });

  it('name what the image does not have', async () => {
    const failure = await bench.failure('backup.image-restore', { snapshotId, disk: 'sdz' });
    expect(failure).to.include({ code: 'DISK_MISSING', message: 'The image has no disk sdz. It has: disk.' });
    await writeFile(bench.at('letter'), 'Dear Ada');
    const { snapshotId: files } = await bench.run('backup.run', { paths: [bench.at('letter')] });
    expect(await bench.failure('backup.image-restore', { snapshotId: files! })).to.include({
      code: 'PATH_MISSING',
      message: 'The snapshot is no image of a machine.',
    });
  });

  it('go on where they were interrupted, and copy again what the target has lost', async () => {
    const interrupted = new AbortController();
    const first = failureOf(
      restoring({
        image: await imageFrom(interrupted.signal),
        signal: interrupted.signal,
        onProgress: (_phase, done) => void (done >= 20 * MIB && interrupted.abort(new Error('killed'))),
      }),
    );
    expect((await first).message).to.equal('killed');
    // As a power cut leaves it: the third extent of the target was never on the disk.
    const handle = await open(target, 'r+');
    await handle.write(Buffer.alloc(MIB), 0, MIB, 9 * MIB);
    await handle.close();
    const second = await restoring();
    expect(second).to.deep.include({ continuedFrom: 8 * MIB, sha256: expected });
    expect(await hashOf(target)).to.equal(expected);
  });

  it('end with a failure if the target does not keep the written data', async () => {
    await emptyDisk(0);
    const journal = await CopyJournal.open(bench.at('data', 'other-journal'), {
      snapshotId,
      disk: 'disk',
      sizeBytes: MIB,
      target,
      extentBytes: MIB,
    });
    const handle = await open(target, 'r+');
    const content = randomBytes(MIB);
    const failure = await failureOf(
      copyDisk({
        sizeBytes: MIB,
        async *read() {
          yield content;
          // Nobody else writes to the target, so this stands for a disk that loses data.
          await handle.write(Buffer.alloc(512, 1), 0, 512, 4096);
        },
        target: handle,
        isSparse: true,
        journal,
        extentBytes: MIB,
        signal: new AbortController().signal,
        onProgress: () => {},
      }),
    );
    await handle.close();
    expect(failure).to.include({ code: 'VERIFY_FAILED' });
  });

  it('refuse a disk that is too small, and say how much is missing', async () => {
    await emptyDisk(64 * MIB - 512);
    const failure = await failureOf(restoring());
    expect(failure.code).to.equal('TARGET_TOO_SMALL');
    expect(failure.message).to.contain('512 bytes more').and.contain('Nothing was written');
    expect((await readFile(target)).every((byte) => byte === 0)).to.equal(true);
  });

  for (const grow of [false, true]) {
    it(`move the second partition table of a larger disk${grow ? ', and grow the last partition' : ''}`, async () => {
      await emptyDisk(96 * MIB);
      const { grown, checks } = await restoring({ grow });
      expect(checks.filter(({ ok }) => !ok)).to.deep.equal([]);
      const { partitiontable } = JSON.parse(onDisk('sfdisk', ['--json', target]));
      expect(partitiontable.lastlba).to.equal((96 * MIB) / 512 - 34);
      const [partition] = partitiontable.partitions;
      expect(partition.start).to.equal(2048);
      const last = partition.start + partition.size - 1;
      expect(last).to.equal(grow ? partitiontable.lastlba : 2048 + 62 * 2048 - 1);
      expect(grown).to.deep.equal(grow ? { number: 1, sizeBytes: partition.size * 512 } : null);
      // sfdisk names a table that is damaged or at a wrong place.
      expect(onDisk('sfdisk', ['--verify', target])).to.contain('No errors detected');
      checkFileSystem(target);
      const blocks = /Block count: +(\d+)/.exec(onDisk('dumpe2fs', ['-h', fileSystemOf(target)]))?.[1];
      // Without a loop device, the machine makes it larger.
      const isGrown = grow && !checks.some(({ name }) => name === 'growth');
      expect(Number(blocks)).to.equal(Math.floor(((isGrown ? partition.size : 62 * 2048) * 512) / 4096));
    });
  }
});

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { writeFiles } from '../../../engine/engine-support.ts';
import { fileSystemOf, makeDiskImage, needsDiskPrograms, onDisk } from '../../../../support/disk-image.ts';
import { type BackupBench, openBackupBench, removeFolders } from './backup-bench.ts';

const MIB = 2 ** 20;
const TYPE = 'backup.image-files-restore';

/** Files out of the ext4 of an image, brought to a folder by the real agent. */
describe('restores of files out of an image', function () {
  this.timeout(120_000);
  let bench: BackupBench;
  let snapshotId: string;
  const isRoot = process.getuid?.() === 0;

  before(async function () {
    needsDiskPrograms(this);
    bench = await openBackupBench(this);
    const source = bench.at('source');
    await writeFiles(source, {
      'etc/hostname': 'web-01\n',
      'etc/deep/er/inner.conf': 'inner',
      'srv/large.bin': randomBytes(5_000_011),
      'srv/huge.bin': randomBytes(20 * MIB),
      'srv/empty': '',
      'odd/we[ird]*?\n名.txt': 'odd',
      'odd/back\\slash': 'backslash',
      'bin/tool': 'program',
      'locked/inside.txt': 'inside',
    });
    execFileSync('ln', [path.join(source, 'srv/large.bin'), path.join(source, 'srv/second.bin')]);
    execFileSync('bash', [
      '-c',
      `printf latin > "$1/odd/caf"$'\\xe9'; printf other > "$1/odd/caf"$'\\xe8'`,
      'bash',
      source,
    ]);
    const sparse = await open(path.join(source, 'srv/sparse.img'), 'wx');
    await sparse.truncate(200 * MIB);
    await sparse.write(Buffer.from('in the middle'), 0, 13, 90 * MIB + 5);
    await sparse.close();
    await symlink('/etc/passwd', path.join(source, 'etc/link'));
    await symlink(`far/${'away/'.repeat(30)}`, path.join(source, 'etc/long-link'));
    if (isRoot) {
      await chown(path.join(source, 'bin/tool'), 1234, 70_000);
      await chown(path.join(source, 'srv'), 1001, 1002);
    }
    await chmod(path.join(source, 'bin/tool'), 0o4751);
    await chmod(path.join(source, 'locked'), 0o1500);
    execFileSync('touch', ['-d', '2011-02-03 04:05:06', path.join(source, 'etc/hostname')]);
    execFileSync('touch', ['-h', '-d', '2012-02-03 04:05:06', path.join(source, 'etc/link')]);
    execFileSync('touch', [
      '-d',
      '2013-02-03 04:05:06',
      path.join(source, 'locked'),
      path.join(source, 'etc'),
    ]);
    await makeDiskImage(bench.at('disk.raw'), { folder: source });
    snapshotId = (await bench.run('backup.image', {})).snapshotId!;
  });
  beforeEach(() => removeFolders(bench.at('target'), bench.at('outside')));
  after(async () => bench?.close());

  const restored = (...names: string[]) => bench.at('target', ...names);
  /** Every path with its kind, rights, owners, size, times, links and content. */
  const picture = (folder: string) =>
    execFileSync(
      'bash',
      [
        '-c',
        `cd "$1" && find . -mindepth 1 -not -name lost+found -printf '%P %y %m %U %G %s %n %l %Ts\\0' | sed -z 's/ d \\([0-9]*\\) \\([0-9]*\\) \\([0-9]*\\) [0-9]* / d \\1 \\2 \\3 /' | sort -z; find . -type f -print0 | sort -z | xargs -0 sha256sum`,
        'bash',
        folder,
      ],
      { encoding: 'latin1' },
    );
  const staging = async () =>
    (await readdir(path.join(bench.dataDir, 'backup/staging')).catch(() => [])).length;
  const restore = (payload: Parameters<BackupBench['run']>[1] = {}) =>
    bench.run(TYPE, { snapshotId, ...payload });

  it('give back everything as it was: links, holes, odd names, owners, rights and times', async () => {
    const id = await bench.send(TYPE, { snapshotId });
    const { output, error } = await bench.ended(id);
    expect(error).to.equal(undefined);
    expect(output).to.deep.include({ status: 'completed', failed: { count: 0, paths: [] } });
    expect(picture(restored())).to.equal(picture(bench.at('source')));
    const [first, second] = [await lstat(restored('srv/large.bin')), await lstat(restored('srv/second.bin'))];
    expect(first.ino).to.equal(second.ino);
    const sparse = await lstat(restored('srv/sparse.img'));
    expect(sparse.size).to.equal(200 * MIB);
    expect(sparse.blocks * 512).to.be.lessThan(MIB);
    expect(bench.progressOf(id).map(({ phase }) => phase)).to.include.members(['placing']);
    expect(await staging()).to.equal(0);
  });

  it('restore only selected paths, below their folders, and name missing ones', async () => {
    const result = await restore({ selectedPaths: ['/etc/deep', '/srv/large.bin', '/no/such/file'] });
    expect(result).to.deep.include({ status: 'partial', filesRestored: 2, bytesRestored: 5_000_016 });
    expect(result.failed.paths).to.deep.equal([
      { path: '/no/such/file', message: 'the snapshot does not contain it' },
    ]);
    expect((await readdir(restored())).sort()).to.deep.equal(['etc', 'srv']);
    expect(await readdir(restored('etc'))).to.deep.equal(['deep']);
    for (const wrong of [
      '/none',
      '/etc/../etc/hostname',
      '/etc/link/x',
      '/etc/hostname/x',
      '../../etc/hostname',
    ]) {
      expect((await bench.failure(TYPE, { snapshotId, selectedPaths: [wrong] })).code, wrong).to.equal(
        'PATH_MISSING',
      );
    }
    expect((await readdir(restored())).sort()).to.deep.equal(['etc', 'srv']);
  });

  for (const overwrite of ['never', 'ifNewer', 'always'] as const) {
    it(`are announced by a dry run as they then happen: ${overwrite}`, async () => {
      const untouched = await restore({ dryRun: true, overwrite });
      expect(await lstat(restored()).catch(() => 'missing')).to.equal('missing');
      expect(untouched.filesRestored).to.be.greaterThan(12);
      await writeFiles(restored(), {
        'etc/hostname': 'newer',
        'srv/large.bin': 'older',
        'srv/empty/file': 'in the way',
      });
      execFileSync('touch', ['-d', '2001-01-01', restored('srv/large.bin')]);
      await symlink(bench.at('source'), restored('locked'));
      const before = picture(restored());
      const { planned, ...announced } = await restore({ dryRun: true, overwrite });
      expect(picture(restored())).to.equal(before);
      const done = await restore({ overwrite });
      expect({ ...done, seconds: 0 }).to.deep.equal({ ...announced, seconds: 0 });
      expect(planned).to.have.length(done.filesRestored);
      expect(
        planned!.filter(({ replaces }) => replaces).map((each) => path.basename(each.path)),
      ).to.deep.equal({ never: [], ifNewer: ['large.bin'], always: ['hostname', 'large.bin'] }[overwrite]);
      // Once more replaces nothing: the files are as old as those of the image.
      const again = await restore({ overwrite: 'ifNewer', dryRun: true });
      const replaced = again.planned!.filter(({ replaces }) => replaces);
      expect(replaced.map((each) => each.path)).to.deep.equal(
        overwrite === 'never' ? ['/srv/large.bin'] : [],
      );
    });
  }

  it('never touch what a link of the target or of the image leads to', async () => {
    await writeFiles(bench.at('outside'), { hostname: 'untouched', 'deep/er/inner.conf': 'untouched' });
    await mkdir(restored(), { recursive: true });
    await symlink(bench.at('outside'), restored('etc'));
    const outside = picture(bench.at('outside'));
    const kept = await restore({ overwrite: 'never', selectedPaths: ['/etc'] });
    expect(kept.failed.paths).to.deep.equal([
      { path: '/etc', message: 'something else than a folder is there' },
    ]);
    expect(await readlink(restored('etc'))).to.equal(bench.at('outside'));
    expect((await restore({ overwrite: 'always', selectedPaths: ['/etc'] })).status).to.equal('completed');
    expect((await lstat(restored('etc'))).isDirectory()).to.equal(true);
    expect(await readlink(restored('etc/link'))).to.equal('/etc/passwd');
    expect(picture(bench.at('outside'))).to.equal(outside);
  });

  it('name the disks and partitions that there are', async () => {
    const failure = async (volume: { disk: string; partition?: number }) =>
      bench.failure(TYPE, { snapshotId, volume: { imagePath: '/machine.tar', ...volume } });
    expect(await failure({ disk: 'sdz', partition: 1 })).to.deep.include({
      code: 'DISK_MISSING',
      message: 'The image has no disk sdz. It has: disk.',
    });
    expect(await failure({ disk: 'disk', partition: 2 })).to.include({ code: 'PARTITION_MISSING' });
    expect(await failure({ disk: 'disk' })).to.include({ code: 'PARTITION_MISSING' });
    expect(await lstat(restored()).catch(() => 'missing')).to.equal('missing');
  });

  it('leave nothing behind when they are cancelled, and go on when the agent was stopped', async () => {
    const restoreId = '0193a5b2-7b6e-7c7e-8f00-0c5a3d2b1f00';
    const cancelled = await bench.send(TYPE, { snapshotId, restoreId });
    expect((await bench.cancel(cancelled)).status).to.equal('cancelled');
    expect(await staging()).to.equal(0);

    const staged = bench.at('data/backup/staging', restoreId);
    await mkdir(path.join(staged, 'srv'), { recursive: true, mode: 0o700 });
    await chmod(staged, 0o700);
    await mkdir(bench.at('data/backup/restores'), { recursive: true });
    await writeFiles(bench.at('data/backup/restores'), {
      [`${restoreId}.json`]: JSON.stringify({ folder: staged, snapshotId }),
    });
    // A link in the way of a file, a folder in the way of another, and a file that is not complete.
    await writeFiles(bench.at('outside'), { precious: 'precious' });
    await symlink(bench.at('outside/precious'), path.join(staged, 'srv/empty'));
    await writeFiles(staged, { 'srv/large.bin': 'a part', 'etc/hostname/in/the/way': 'x' });
    const result = await restore({ restoreId });
    expect(result.status).to.equal('completed');
    expect(picture(restored())).to.equal(picture(bench.at('source')));
    expect(await readFile(bench.at('outside/precious'), 'utf8')).to.equal('precious');
    expect(await staging()).to.equal(0);
  });

  it('name the files of which a part is gone, and bring the rest', async () => {
    const { destination } = bench.access;
    const packs = path.join(destination.path, 'data');
    const found: { file: string; size: number }[] = [];
    for (const folder of await readdir(packs)) {
      for (const name of await readdir(path.join(packs, folder))) {
        const file = path.join(packs, folder, name);
        found.push({ file, size: (await lstat(file)).size });
      }
    }
    const [largest] = found.sort((one, other) => other.size - one.size);
    // In the middle of the random bytes of the largest file.
    const bytes = await readFile(largest!.file);
    const at = Math.floor(bytes.length / 2);
    const damaged = Buffer.from(bytes);
    for (let index = 0; index < 64; index += 1) damaged[at + index] = (damaged[at + index] ?? 0) ^ 0xff;
    await chmod(largest!.file, 0o600);
    await writeFile(largest!.file, damaged);
    try {
      const result = await restore();
      expect(result.status).to.equal('partial');
      expect(result.failed.paths.length).to.be.greaterThan(0);
      for (const each of result.failed.paths) expect(each.message).to.equal('damaged');
      const names = result.failed.paths.map((each) => each.path);
      expect(names).to.include('/srv/huge.bin');
      expect(await readdir(restored('srv'))).to.not.include('huge.bin');
      // The damaged part can reach into what lies beside it on the disk, which then is named too.
      const others = ['etc/hostname', 'bin/tool', 'odd/back\\slash'].filter(
        (each) => !names.includes(`/${each}`),
      );
      expect(others).to.have.length.greaterThan(0);
      for (const each of others) {
        expect(await readFile(restored(each))).to.deep.equal(await readFile(bench.at('source', each)));
      }
    } finally {
      await writeFile(largest!.file, bytes);
    }
    expect((await restore()).status).to.equal('completed');
  });

  describe('that are forged', () => {
    async function imageWith(script: string, more: (bytes: Buffer) => void = () => {}): Promise<string> {
      const file = bench.at('forged.raw');
      await rm(file, { force: true });
      await makeDiskImage(file, { sizeMib: 16, files: { 'good.txt': 'good', 'd/inner.txt': 'inner' } });
      onDisk('debugfs', ['-w', '-f', '-', fileSystemOf(file)], script);
      const bytes = await readFile(file);
      more(bytes);
      const handle = await open(file, 'w');
      await handle.writeFile(bytes);
      await handle.close();
      return (await bench.run('backup.image', { disks: [file] })).snapshotId!;
    }
    const rename = (bytes: Buffer, from: string, to: string) => {
      expect(to).to.have.length(from.length);
      for (let at = bytes.indexOf(from); at !== -1; at = bytes.indexOf(from, at + 1)) {
        bytes.write(to, at, 'latin1');
      }
    };
    const forged = (id: string, more: object = {}) =>
      bench.run(TYPE, {
        snapshotId: id,
        volume: { imagePath: '/machine.tar', disk: 'forged', partition: 1 },
        ...more,
      });

    it('leave out names that are paths, duplicate names and damaged files, and restore the rest', async () => {
      await writeFiles(bench.at('outside'), { precious: 'precious' });
      const id = await imageWith(
        [
          `symlink twice-aaaa ${bench.at('outside')}`,
          'mkdir twice-bbbb',
          `write ${bench.at('source/etc/hostname')} twice-bbbb/precious`,
          `write ${bench.at('source/etc/hostname')} path-xxxxxxxx`,
          `write ${bench.at('source/etc/hostname')} null-zz`,
          `write ${bench.at('source/srv/large.bin')} broken.bin`,
          'sif broken.bin block[0] 0xffff',
          'mknod pipe p',
          'mkdir circle',
          'ln d circle/again',
          '',
        ].join('\n'),
        (bytes) => {
          rename(bytes, 'twice-aaaa', 'twice-same');
          rename(bytes, 'twice-bbbb', 'twice-same');
          rename(bytes, 'path-xxxxxxxx', '../../outside');
          rename(bytes, 'null-zz', 'null-\0z');
        },
      );
      for (const dryRun of [true, false]) {
        const result = await forged(id, { dryRun });
        expect(result.status).to.equal('partial');
        const said = Object.fromEntries(result.failed.paths.map((each) => [each.path, each.message]));
        expect(said).to.deep.include({
          '/twice-same': 'same name',
          '/..\ufffd..\ufffdoutside': 'no possible name',
          '/null-\ufffdz': 'no possible name',
          '/pipe': 'a pipe, which is not restored',
        });
        // One of the two names of the folder.
        expect([said['/circle/again'], said['/d']]).to.include('damaged');
        if (!dryRun) expect(said).to.deep.include({ '/broken.bin': 'damaged' });
      }
      expect(await readFile(restored('good.txt'), 'utf8')).to.equal('good');
      expect(await readdir(bench.at('outside'))).to.deep.equal(['precious']);
      expect(await readFile(bench.at('outside/precious'), 'utf8')).to.equal('precious');
      const top = (await readdir(restored())).sort();
      expect(top).to.include.members(['circle', 'good.txt']).and.not.include('broken.bin');
      expect(await readdir(bench.at('target', '..'))).to.not.include('outside2');
    });

    it('fail before anything is made if a file claims more than the disk holds', async () => {
      const id = await imageWith(
        `write ${bench.at('source/etc/hostname')} huge\nsif huge size 0x3fffffffffff\n`,
      );
      const failure = await bench.failure(TYPE, {
        snapshotId: id,
        volume: { imagePath: '/machine.tar', disk: 'forged', partition: 1 },
      });
      expect(failure.code).to.equal('TARGET_FULL');
      expect(await staging()).to.equal(0);
    });
  });
});

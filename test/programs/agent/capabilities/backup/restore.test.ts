import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { writeFiles } from '../../../engine/engine-support.ts';
import { eventually } from '../../../../support/eventually.ts';
import { type BackupBench, openBackupBench, removeFolders } from './backup-bench.ts';

/** One snapshot, restored in many ways. */
describe('restores on a device', function () {
  this.timeout(120_000);
  let bench: BackupBench;
  let snapshotId: string;

  before(async function () {
    bench = await openBackupBench(this);
    const source = bench.at('source');
    await writeFiles(source, {
      'a/one.txt': 'one',
      'a/b/two.txt': 'two',
      'we[ird]*?\n名.txt': 'odd',
      'empty.txt': '',
      'large.bin': randomBytes(3_000_000),
    });
    execFileSync('ln', [path.join(source, 'a/one.txt'), path.join(source, 'hard.txt')]);
    await symlink('/etc/passwd', path.join(source, 'link'));
    await mkdir(path.join(source, 'locked'));
    await writeFile(path.join(source, 'locked/inside.txt'), 'inside');
    // A name that is not valid UTF-8.
    execFileSync('bash', ['-c', `printf latin > "$1/caf"$'\\xe9'`, 'bash', source]);
    execFileSync('touch', ['-d', '2011-02-03 04:05:06.789', path.join(source, 'a/b/two.txt')]);
    await chmod(path.join(source, 'a/b/two.txt'), 0o640);
    await chmod(path.join(source, 'locked'), 0o500);
    snapshotId = (await bench.run('backup.run', {})).snapshotId!;
  });
  beforeEach(() => removeFolders(bench.at('target'), bench.at('outside')));
  after(async () => bench?.close());

  const restored = (...names: string[]) => bench.at('target', bench.at('source', ...names));
  /** Every path with its kind, rights, size, times, links and content. */
  const picture = (folder: string) =>
    execFileSync(
      'bash',
      [
        '-c',
        `cd "$1" && find . -printf '%P %y %m %s %n %l %T@\\0' | sort -z; find . -type f -print0 | sort -z | xargs -0 sha256sum`,
        'bash',
        folder,
      ],
      { encoding: 'latin1' },
    ).replaceAll(/^ d [^\0]*\0/g, '');
  const staging = async () =>
    (await readdir(path.join(bench.dataDir, 'backup/staging')).catch(() => [])).length;
  const restore = (payload: Parameters<BackupBench['run']>[1] = {}) =>
    bench.run('backup.restore', { snapshotId, ...payload });

  it('give back everything as it was: odd names, links, rights and times', async () => {
    const result = await restore();
    expect(result.failed).to.deep.equal({ count: 0, paths: [] });
    expect(picture(restored())).to.equal(picture(bench.at('source')));
    expect(await staging()).to.equal(0);
  });

  it('go into a new private folder of the agent if no target is given', async () => {
    const result = await restore({ targetPath: undefined });
    expect(result.targetPath.startsWith(path.join(bench.dataDir, 'backup/restored/'))).to.equal(true);
    expect((await lstat(result.targetPath)).mode & 0o777).to.equal(0o700);
    expect(picture(path.join(result.targetPath, bench.at('source')))).to.equal(picture(bench.at('source')));
  });

  it('bring a folder or a file to a place of its own, and what they brought to the agent is taken down', async () => {
    await writeFiles(bench.at('target'), { 'one.txt': 'older', 'kept.txt': 'kept' });
    const folder = bench.at('source/a');
    const result = await restore({ selectedPaths: [folder], from: folder });
    expect(result).to.include({ filesRestored: 2, targetPath: bench.at('target') });
    expect(await readFile(bench.at('target/one.txt'), 'utf8')).to.equal('one');
    expect(await readFile(bench.at('target/b/two.txt'), 'utf8')).to.equal('two');
    expect(await readFile(bench.at('target/kept.txt'), 'utf8')).to.equal('kept');
    const file = bench.at('source/a/b/two.txt');
    const placed = { selectedPaths: [file], from: file, targetPath: bench.at('target/two.txt') };
    expect(await restore(placed)).to.include({ filesRestored: 1 });
    expect((await readdir(bench.at('target'))).sort()).to.deep.equal(['b', 'kept.txt', 'one.txt', 'two.txt']);
    const renamed = { snapshotId, ...placed, targetPath: bench.at('target/three.txt') };
    expect((await bench.failure('backup.restore', renamed)).code).to.equal('TARGET_UNSAFE');
    const gone = bench.at('source/none');
    const missing = { snapshotId, selectedPaths: [gone], from: gone };
    expect((await bench.failure('backup.restore', missing)).code).to.equal('PATH_MISSING');
    expect(await staging()).to.equal(0);

    const own = await restore({ targetPath: undefined });
    const restoreId = path.basename(own.targetPath);
    for (const wasThere of [true, false]) {
      const ended = await bench.ended(await bench.hub.command('recovery.discard-restore', { restoreId }));
      expect(ended.output).to.deep.equal({ wasThere });
    }
    expect(await lstat(own.targetPath).catch(() => 'gone')).to.equal('gone');
    expect(await lstat(bench.at('source/a/one.txt'))).not.to.equal(undefined);
  });

  it('restore only selected paths, by their exact names, and name missing ones', async () => {
    const odd = bench.at('source', 'we[ird]*?\n名.txt');
    const result = await restore({ selectedPaths: [odd, bench.at('source/a/b'), '/no/such/file'] });
    expect(result).to.deep.include({ status: 'partial', filesRestored: 2 });
    expect(result.failed).to.deep.equal({
      count: 1,
      paths: [{ path: '/no/such/file', message: 'the snapshot does not contain it' }],
    });
    expect((await readdir(restored())).sort()).to.deep.equal(['a', 'we[ird]*?\n名.txt']);
    const { code } = await bench.failure('backup.restore', { snapshotId, selectedPaths: ['/no/such/file'] });
    expect(code).to.equal('PATH_MISSING');
  });

  for (const overwrite of ['never', 'ifNewer', 'always'] as const) {
    it(`are announced by a dry run as they then happen: ${overwrite}`, async () => {
      const untouched = await restore({ dryRun: true, overwrite });
      expect(await lstat(bench.at('target')).catch(() => 'missing')).to.equal('missing');
      expect([untouched.filesRestored, untouched.filesSkipped]).to.deep.equal([9, 0]);

      await writeFiles(restored(), {
        'a/one.txt': 'newer',
        'large.bin': 'older',
        'empty.txt/file': 'in the way',
      });
      execFileSync('touch', ['-d', '2001-01-01', restored('large.bin')]);
      await symlink(bench.at('source'), restored('locked'));
      const before = picture(bench.at('target'));
      const planned = await restore({ dryRun: true, overwrite });
      expect(picture(bench.at('target'))).to.equal(before);
      const { planned: files, ...announced } = planned;
      const done = await restore({ overwrite });
      expect({ ...done, seconds: 0 }).to.deep.equal({ ...announced, seconds: 0 });
      expect(files).to.have.length(done.filesRestored);
      expect(files!.filter(({ replaces }) => replaces).map((each) => path.basename(each.path))).to.deep.equal(
        { never: [], ifNewer: ['large.bin'], always: ['one.txt', 'large.bin'] }[overwrite],
      );
    });
  }

  it('never touch what a link leads to, and replace a link only if they may replace everything', async () => {
    await writeFiles(bench.at('outside'), { 'one.txt': 'untouched', 'b/two.txt': 'untouched' });
    await mkdir(restored(), { recursive: true });
    await symlink(bench.at('outside'), restored('a'));
    await symlink(bench.at('outside/one.txt'), restored('hard.txt'));
    const outside = picture(bench.at('outside'));
    const kept = await restore({ overwrite: 'never' });
    expect(kept.failed.paths).to.deep.equal([
      { path: bench.at('source/a'), message: 'something else than a folder is there' },
    ]);
    expect(await readlink(restored('a'))).to.equal(bench.at('outside'));
    expect((await restore({ overwrite: 'always' })).status).to.equal('completed');
    expect((await lstat(restored('a'))).isDirectory()).to.equal(true);
    expect(picture(bench.at('outside'))).to.equal(outside);
  });

  it('refuse targets that are the root, a file, the folder of the agent or behind a link of another user', async () => {
    await writeFiles(bench.at('outside'), { 'file.txt': 'x' });
    await mkdir(bench.at('shared'), { recursive: true });
    await chmod(bench.at('shared'), 0o777);
    await symlink(bench.at('outside'), bench.at('shared/link')).catch(() => {});
    for (const targetPath of [
      '/',
      '/tmp/..',
      'relative',
      bench.at('outside/file.txt'),
      bench.at('outside/file.txt/below'),
      bench.dataDir,
      path.join(bench.dataDir, 'below'),
      bench.at('shared/link'),
      bench.at('shared/link/below'),
    ]) {
      const { code } = await bench.failure('backup.restore', { snapshotId, targetPath });
      expect([targetPath, code]).to.deep.equal([targetPath, 'TARGET_UNSAFE']);
    }
    expect(await readdir(bench.at('outside'))).to.deep.equal(['file.txt']);
    const { code } = await bench.failure('backup.restore', { snapshotId, targetPath: '/proc/no' });
    expect(code).to.be.oneOf(['TARGET_NOT_WRITABLE', 'FAILED', 'TARGET_UNSAFE']);
  });

  it('follow a link of root above the target', async () => {
    await symlink(bench.at('outside'), bench.at('own-link')).catch(() => {});
    await mkdir(bench.at('outside'));
    const result = await restore({ targetPath: bench.at('own-link/inside') });
    expect(result.targetPath).to.equal(bench.at('outside/inside'));
    await rm(bench.at('own-link'));
  });

  it('leave nothing behind when they are cancelled', async () => {
    const id = await bench.send('backup.restore', { snapshotId });
    await eventually(
      () => bench.progressOf(id),
      (progress) => progress.length > 0,
    );
    expect((await bench.cancel(id)).status).to.equal('cancelled');
    expect([await staging(), await readdir(bench.at('target')).catch(() => [])]).to.deep.equal([0, []]);
  });

  it('go on with what they have fetched when the agent stopped while it moved the files', async () => {
    const restoreId = '0197a000-0000-7000-8000-000000000001';
    await restore({ restoreId });
    const whole = picture(restored());
    // As an agent leaves it that is killed between two files.
    const folder = path.join(bench.dataDir, 'backup/staging', restoreId);
    const fetched = { files: 9, bytes: 3_000_018, failed: [] };
    await mkdir(path.join(folder, bench.at('source')), { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
    execFileSync('mv', [restored('large.bin'), path.join(folder, bench.at('source'))]);
    const record = path.join(bench.dataDir, 'backup/restores', `${restoreId}.json`);
    await mkdir(path.dirname(record), { recursive: true });
    await writeFile(record, JSON.stringify({ folder, snapshotId, fetched }));
    const result = await restore({ restoreId, overwrite: 'never' });
    expect(result).to.deep.include({ status: 'completed', filesRestored: 9, filesSkipped: 0 });
    expect(picture(restored())).to.equal(whole);
    expect(await staging()).to.equal(0);
    expect(await readFile(record).catch(() => 'gone')).to.equal('gone');
  });
});

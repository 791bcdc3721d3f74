import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cp, mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { writeFiles } from '../../../engine/engine-support.ts';
import { type BackupBench, openBackupBench } from './backup-bench.ts';

/** The commands of a real agent with real restic, as the server sends them. */
describe('backups of a device', function () {
  this.timeout(120_000);
  let bench: BackupBench;

  before(async function () {
    bench = await openBackupBench(this);
  });
  beforeEach(async () => {
    for (const name of ['source', 'target', 'outside']) {
      await rm(bench.at(name), { recursive: true, force: true });
    }
    await writeFiles(bench.at('source'), {
      'a/one.txt': 'one',
      'a/b/two.txt': 'two',
      'three.bin': randomBytes(300_000),
    });
  });
  after(async () => bench?.close());

  const restored = (...names: string[]) => bench.at('target', bench.at('source', ...names));
  const isSame = (left: string, right: string) => execFileSync('diff', ['-r', left, right]).length === 0;
  const snapshot = async () => (await bench.run('backup.run', {})).snapshotId!;

  it('are made and restored, with progress', async () => {
    const backupId = await bench.send('backup.run', {});
    const made = await bench.ended(backupId);
    expect(made.output).to.deep.include({ status: 'completed', filesNew: 3, filesChanged: 0 });
    expect(bench.progressOf(backupId).at(-1)).to.deep.include({
      done: 300_006,
      total: 300_006,
      filesDone: 3,
      filesTotal: 3,
      percent: 100,
    });

    const { snapshotId } = made.output as { snapshotId: string };
    const result = await bench.run('backup.restore', { snapshotId });
    expect(result).to.deep.include({
      status: 'completed',
      targetPath: bench.at('target'),
      filesRestored: 3,
      bytesRestored: 300_006,
      filesSkipped: 0,
    });
    expect(isSame(bench.at('source'), restored())).to.equal(true);
  });

  it('hold what could be read if a source is missing', async () => {
    const output = await bench.run('backup.run', { paths: [bench.at('source'), bench.at('missing')] });
    expect(output.status).to.equal('partial');
    expect(output.unreadable.paths[0]!.path).to.equal(bench.at('missing'));
    expect(output.snapshotId).to.match(/^[0-9a-f]{64}$/);
  });

  it('hold nothing of a virtual file system, and say so', async () => {
    const output = await bench.run('backup.run', { paths: [bench.at('source'), '/proc/self/task'] });
    expect(output.status).to.equal('partial');
    expect(output.unreadable).to.deep.equal({
      count: 1,
      paths: [
        {
          path: '/proc/self/task',
          message: 'It lies in a virtual file system (proc), which holds no files.',
        },
      ],
    });
    const { code, message } = await bench.failure('backup.run', { paths: ['/proc/self', '/sys'] });
    expect(code).to.equal('SOURCE_UNREADABLE');
    expect(message).to.contain('virtual file systems');
    // Patterns of people take nothing of it in again.
    const whole = await bench.run('backup.run', {
      paths: ['/'],
      excludes: ['/*', '!/proc', '!/sys', '!/dev', '!/run'],
    });
    expect(whole.leftOut?.paths.map(({ path: left }) => left)).to.include.members(['/proc', '/sys', '/dev']);
    const held = bench.stock('ls', 'latest').trim().split('\n').slice(1).sort();
    expect(held).to.deep.equal(['/dev', '/proc', '/run', '/sys']);
  });

  it('name the sources that have no file', async () => {
    await mkdir(bench.at('source', 'mount', 'lost'), { recursive: true });
    await symlink(bench.at('source'), bench.at('source', 'link'));
    const sources = ['a', 'mount', 'link'].map((name) => bench.at('source', name));
    const output = await bench.run('backup.run', { paths: sources });
    expect(output).to.deep.include({ status: 'completed', emptySources: sources.slice(1) });
  });

  it('never hold the files of the agent, nor the repository itself', async () => {
    await bench.run('backup.run', { paths: [bench.at('')] });
    const { destination } = bench.access;
    await bench.run('backup.run', { paths: [bench.at(''), destination.path] });
    expect(
      bench
        .stock('ls', 'latest')
        .split('\n')
        .filter((line) => line.includes(bench.at('data'))),
    ).to.deep.equal([]);
    expect(bench.stock('ls', 'latest')).to.contain('three.bin').and.not.contain(`${destination.path}/data`);
  });

  for (const [overwrite, expected] of Object.entries({
    always: ['one', 'two', 'three'],
    never: ['changed', 'two', 'older'],
    ifNewer: ['changed', 'two', 'three'],
  })) {
    it(`are restored over files that are there: ${overwrite}`, async () => {
      await writeFile(bench.at('source', 'three.bin'), 'three');
      const snapshotId = await snapshot();
      await writeFiles(restored(), { 'a/one.txt': 'changed', 'three.bin': 'older' });
      execFileSync('touch', ['-d', '2001-01-01', restored('three.bin')]);
      const { filesSkipped, filesRestored } = await bench.run('backup.restore', {
        snapshotId,
        overwrite: overwrite as 'always',
      });
      const contents = ['a/one.txt', 'a/b/two.txt', 'three.bin'].map((name) =>
        readFile(restored(name), 'utf8'),
      );
      expect(await Promise.all(contents)).to.deep.equal(expected);
      expect(filesRestored + filesSkipped).to.equal(3);
    });
  }

  it('are restored through no link of another user', async () => {
    const snapshotId = await snapshot();
    await writeFiles(bench.at('outside'), { 'a/one.txt': 'untouched' });
    await mkdir(bench.at('target', bench.at('')), { recursive: true });
    await symlink(bench.at('outside'), bench.at('target', bench.at('source')));
    const result = await bench.run('backup.restore', { snapshotId, overwrite: 'ifNewer' });
    expect(result).to.deep.include({ status: 'partial', filesRestored: 0 });
    expect(result.failed.paths[0]!.path).to.equal(bench.at('source'));
    expect(await readFile(bench.at('outside', 'a/one.txt'), 'utf8')).to.equal('untouched');
    expect(await readlink(bench.at('target', bench.at('source')))).to.equal(bench.at('outside'));

    await bench.run('backup.restore', { snapshotId, overwrite: 'always' });
    expect((await stat(bench.at('outside', 'a/one.txt'))).size).to.equal('untouched'.length);
    expect(await readFile(restored('a/one.txt'), 'utf8')).to.equal('one');
  });

  it('send nothing again that an interrupted first one has sent', async () => {
    await bench.run('backup.run', {});
    // As restic leaves it when it is killed within its first ten minutes: packs, and nothing that names them.
    const again = bench.at('interrupted');
    await cp(bench.access.destination.path, again, { recursive: true });
    for (const folder of ['index', 'snapshots']) {
      for (const name of await readdir(path.join(again, folder))) await rm(path.join(again, folder, name));
    }
    const repository = { ...bench.access, destination: { type: 'local' as const, path: again } };
    const lost = bench.at('not-indexed');
    await cp(again, lost, { recursive: true });
    const asBefore = { ...repository, destination: { type: 'local' as const, path: lost } };
    expect((await bench.run('backup.run', { repository: asBefore })).bytesAdded).to.be.greaterThan(300_000);
    const { bytesAdded, status } = await bench.run('backup.run', {
      repository: { ...repository, isNew: true },
    });
    expect(status).to.equal('completed');
    expect(bytesAdded).to.be.lessThan(10_000);
  });
});

import { execFileSync } from 'node:child_process';
import { mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { expect } from 'chai';
import { masterKeyOf, putSnapshot, putTree } from '../../../../support/engine/repository-forge.ts';
import { type BackupBench, openBackupBench } from './backup-bench.ts';

/** Snapshots that were written by somebody who knows the password, to be restored on the machine of somebody else. */
describe('hostile snapshots', function () {
  this.timeout(120_000);
  let bench: BackupBench;
  let key: Awaited<ReturnType<typeof masterKeyOf>>;
  let folder: string;

  before(async function () {
    bench = await openBackupBench(this);
    folder = bench.access.destination.path;
    key = await masterKeyOf(folder, 'correct-horse-battery-staple');
    await mkdir(bench.at('outside'), { mode: 0o750 });
  });
  after(async () => bench?.close());
  afterEach(async () => rm(bench.at('target'), { recursive: true, force: true }));

  const node = (name: string, type: string, more: object = {}) => ({
    name,
    type,
    mode: type === 'dir' ? 0x80000000 + 0o777 : 0o777,
    mtime: '2026-01-01T00:00:00Z',
    ...more,
  });
  const snapshotOf = async (nodes: object[]) => putSnapshot(folder, key, await putTree(folder, key, nodes));
  const outside = () =>
    execFileSync('find', [bench.at('outside'), '-printf', '%P %m %y\n'], { encoding: 'utf8' });

  it('are refused if a folder has a name twice, which restic would follow', async () => {
    const before = outside();
    const snapshotId = await snapshotOf([
      node('x', 'symlink', { linktarget: bench.at('outside') }),
      node('x', 'file', { content: [], size: 0 }),
    ]);
    expect((await bench.failure('backup.restore', { snapshotId })).code).to.equal('REPOSITORY_DAMAGED');
    expect((await bench.failure('backup.restore', { snapshotId, dryRun: true })).code).to.equal(
      'REPOSITORY_DAMAGED',
    );
    const paths = ['/x'];
    expect((await bench.failure('backup.verify', { snapshotId, paths })).code).to.equal('REPOSITORY_DAMAGED');
    expect(outside()).to.equal(before);
  });

  it('do not leave the target by their names', async () => {
    const inner = await putTree(folder, key, [node('in.txt', 'file', { content: [], size: 0 })]);
    for (const name of ['../outside', '..', '/outside', 'a/../../outside']) {
      const snapshotId = await snapshotOf([
        node(name, 'dir', { subtree: inner }),
        node(`${name}2`, 'file', { content: [], size: 0 }),
      ]);
      await bench.ended(await bench.send('backup.restore', { snapshotId }));
      expect([name, await readdir(bench.at('outside'))]).to.deep.equal([name, []]);
    }
    expect((await readdir(bench.at(''))).sort()).to.deep.equal(['data', 'outside', 'target']);
  });

  it('are not restored through a link that an earlier restore has made', async () => {
    const link = await snapshotOf([node('x', 'symlink', { linktarget: bench.at('outside') })]);
    await bench.run('backup.restore', { snapshotId: link });
    const inner = await putTree(folder, key, [node('in.txt', 'file', { content: [], size: 0 })]);
    const through = await snapshotOf([node('x', 'dir', { subtree: inner })]);
    await bench.run('backup.restore', { snapshotId: through, overwrite: 'ifNewer' });
    expect(await readdir(bench.at('outside'))).to.deep.equal([]);
    await rm(bench.at('target/x'));
    await symlink('outside', bench.at('target/x'));
    await bench.run('backup.restore', { snapshotId: through, overwrite: 'always' });
    expect([await readdir(bench.at('outside')), await readdir(bench.at('target/x'))]).to.deep.equal([
      [],
      ['in.txt'],
    ]);
  });
});

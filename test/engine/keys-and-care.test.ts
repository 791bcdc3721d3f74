import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  addKeyVersion,
  backup,
  checkRepository,
  copySnapshots,
  forgetSnapshots,
  initRepository,
  listKeys,
  listSnapshots,
  prune,
  readRepositoryId,
  readStats,
  rebuildIndex,
  removeOtherKeys,
  type Repository,
  restore,
  unlockOwn,
} from '../../src/engine/index.ts';
import {
  failureOf,
  openWorkbench,
  PASSWORD,
  stockRestic,
  type Workbench,
  writeFiles,
} from './engine-support.ts';
import { damage } from './repository-forge.ts';

describe('keys and the care of a repository', function () {
  this.timeout(120_000);
  let bench: Workbench;
  let source: string;

  before(async function () {
    bench = await openWorkbench(this);
    source = bench.at('source');
    await writeFiles(source, { 'a.bin': randomBytes(200_000), 'b.txt': 'b' });
  });
  after(async () => bench?.remove());

  const folderOf = ({ destination }: Repository) => (destination.type === 'local' ? destination.path : '');
  const save = async (repository: Repository) =>
    (await backup(bench.engine, repository, { paths: [source], host: 'device-1' })).snapshotId ?? '';
  const filesIn = async (folder: string) => {
    const names = await readdir(folder, { recursive: true });
    return names.filter((name) => path.basename(name).length === 64).map((name) => path.join(folder, name));
  };

  it('a new repository has one key with our label, and is not made twice', async () => {
    const destination = { type: 'local', path: bench.at('labelled') } as const;
    const repository: Repository = { destination, password: PASSWORD };
    const label = { user: 'muster', host: 'v1' };
    const { repositoryId, keyId } = await initRepository(bench.engine, repository, { label });
    expect(await readRepositoryId(bench.engine, repository)).to.equal(repositoryId);
    const keys = await listKeys(bench.engine, { ...repository, keyHint: keyId });
    expect(keys).to.have.length(1);
    expect(keys[0]).to.include({ id: keyId, userName: 'muster', hostName: 'v1', current: true });
    expect((await failureOf(initRepository(bench.engine, repository))).code).to.equal('REPOSITORY_EXISTS');
  });

  it('a rotation can be repeated after it was killed at any time, and never loses access', async () => {
    const repository = await bench.repository('rotated');
    const id = await save(repository);
    const next = { password: 'the-next-password', label: { user: 'muster', host: 'v2' } };
    const opened: Repository = { destination: repository.destination, password: next.password };
    for (const ms of [50, 400]) {
      await addKeyVersion(bench.engine, repository, next, {
        onStart: (pid) => void delay(ms).then(() => killGroup(pid)),
      }).then(
        () => undefined,
        () => undefined,
      );
      expect(await listSnapshots(bench.engine, repository)).to.have.length(1);
    }
    const first = await addKeyVersion(bench.engine, repository, next);
    expect(await addKeyVersion(bench.engine, repository, next)).to.equal(first);
    // A killed process leaves its lock, and keys are removed under an exclusive one.
    expect(await unlockOwn(bench.engine, opened)).to.deep.equal([]);
    await removeOtherKeys(bench.engine, opened, next.label);
    const { keyId, removed } = await removeOtherKeys(bench.engine, opened, next.label);
    expect([keyId, removed]).to.deep.equal([first, []]);
    expect(
      (await failureOf(listSnapshots(bench.engine, { ...repository, keyHint: undefined }))).code,
    ).to.equal('WRONG_KEY');
    expect((await listSnapshots(bench.engine, opened)).map((each) => each.id)).to.deep.equal([id]);
  });

  it('removes snapshots by their ids only, and what they needed alone', async () => {
    const repository = await bench.repository('forgotten');
    const first = await save(repository);
    await writeFiles(source, { 'c.bin': randomBytes(300_000) });
    const second = await save(repository);
    await rm(path.join(source, 'c.bin'));
    const third = await save(repository);
    const before = await readStats(bench.engine, repository, { mode: 'stored' });

    expect(await forgetSnapshots(bench.engine, repository, [second, 'f'.repeat(64)])).to.deep.equal([second]);
    const wrong = await forgetSnapshots(bench.engine, repository, ['latest']).then(() => undefined, String);
    expect(wrong).to.include('regex');
    await prune(bench.engine, repository, { maxRepackMiB: 100 });
    const left = await listSnapshots(bench.engine, repository);
    expect(left.map(({ id }) => id).sort()).to.deep.equal([first, third].sort());
    const after = await readStats(bench.engine, repository, { mode: 'stored' });
    expect(before.bytes - after.bytes).to.be.greaterThan(290_000);
    expect(await checkRepository(bench.engine, repository, { read: { part: 1, of: 1 } })).to.deep.equal({
      isSound: true,
      errors: [],
    });
  });

  it('finds damage in the structure and in the data, and rebuilds an index that is lost', async () => {
    const repository = await bench.repository('damaged');
    const id = await save(repository);
    for (const file of await filesIn(path.join(folderOf(repository), 'index'))) await rm(file);
    const lost = await checkRepository(bench.engine, repository);
    expect(lost.isSound).to.equal(false);
    expect(lost.errors).not.to.be.empty;
    await rebuildIndex(bench.engine, repository);
    expect(await checkRepository(bench.engine, repository)).to.include({ isSound: true });

    const packs = await filesIn(path.join(folderOf(repository), 'data'));
    for (const pack of packs) await damage(pack, 50);
    const found = await checkRepository(bench.engine, repository, { read: { part: 1, of: 1 } });
    expect(found.isSound).to.equal(false);
    for (const pack of packs) await damage(pack, 50);
    const whole = await restore(bench.engine, repository, { snapshotId: id, target: bench.at('whole') });
    expect(whole).to.include({ status: 'completed', files: 2 });
  });

  it('copies snapshots to another repository with another password, once', async () => {
    const from = await bench.repository('from');
    const id = await save(from);
    const to: Repository = {
      destination: { type: 'local', path: bench.at('vault') },
      password: 'password-of-the-vault',
    };
    await initRepository(bench.engine, to, { chunkedLike: from });
    await copySnapshots(bench.engine, { from, to });
    await copySnapshots(bench.engine, { from, to }, [id]);
    const copies = await listSnapshots(bench.engine, to);
    expect(copies.map(({ original }) => original)).to.deep.equal([id]);
    expect(stockRestic(to, 'check')).to.include('no errors were found');
  });

  it('reads where it may not write, without a lock', async () => {
    const repository = await bench.repository('read-only');
    const id = await save(repository);
    await rm(path.join(folderOf(repository), 'locks'), { recursive: true });
    const readOnly = { ...repository, isReadOnly: true };
    await restore(bench.engine, readOnly, { snapshotId: id, target: bench.at('from-read-only') });
    expect(await readdir(folderOf(repository))).not.to.include('locks');
  });
});

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

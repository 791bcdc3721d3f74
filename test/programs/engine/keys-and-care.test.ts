import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  backup,
  checkRepository,
  copySnapshots,
  folderSource,
  forgetSnapshots,
  initRepository,
  listSnapshots,
  newKeyFile,
  newRepository,
  openConfig,
  prune,
  readStats,
  rebuildIndex,
  type Repository,
  restore,
} from '../../../src/engine/index.ts';
import { randomPolynomial } from '../../../src/engine/repository/keys.ts';
import {
  failureOf,
  openWorkbench,
  PASSWORD,
  stockRestic,
  type Workbench,
  writeFiles,
} from './engine-support.ts';
import { damage } from '../../support/engine/repository-forge.ts';

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

  it('makes a repository without restic, which stock restic opens and finds sound', async () => {
    const { key, config } = await newRepository({
      password: PASSWORD,
      label: { user: 'muster', host: 'v1' },
    });
    const folder = bench.at('made');
    await mkdir(path.join(folder, 'keys'), { recursive: true });
    await writeFile(path.join(folder, 'keys', key.id), key.content);
    await writeFile(path.join(folder, 'config'), config);
    const repository: Repository = {
      destination: { type: 'local', path: folder },
      password: PASSWORD,
      keyHint: key.id,
    };
    const [only, second] = JSON.parse(stockRestic(repository, 'key', 'list', '--json'));
    expect(only).to.include({ current: true, userName: 'muster', hostName: 'v1' });
    expect(second).to.equal(undefined);
    expect((await failureOf(initRepository(bench.engine, repository))).code).to.equal('REPOSITORY_EXISTS');
    const id = await save(repository);
    expect(stockRestic(repository, 'check', '--read-data')).to.include('no errors were found');
    await restore(bench.engine, repository, { snapshotId: id, target: bench.at('from-made') });

    const opened = await openConfig(folderSource(folder), config, { password: PASSWORD });
    const next = await newKeyFile(opened.master, {
      password: 'the-next-password',
      label: { user: 'muster', host: 'v2' },
    });
    await writeFile(path.join(folder, 'keys', next.id), next.content);
    await rm(path.join(folder, 'keys', key.id));
    const rotated = { ...repository, password: 'the-next-password', keyHint: undefined };
    expect(stockRestic(rotated, 'check')).to.include('no errors were found');
    expect(
      (await failureOf(listSnapshots(bench.engine, { ...repository, keyHint: undefined }))).code,
    ).to.equal('WRONG_KEY');
  });

  it('makes a repository with restic, which saves into it', async () => {
    const repository: Repository = {
      destination: { type: 'local', path: bench.at('made-by-restic') },
      password: PASSWORD,
    };
    await initRepository(bench.engine, repository);
    const id = await save(repository);
    expect((await listSnapshots(bench.engine, repository)).map((snapshot) => snapshot.id)).to.deep.equal([
      id,
    ]);
    expect(JSON.parse(stockRestic(repository, 'key', 'list', '--json'))).to.have.length(1);
    expect(stockRestic(repository, 'check')).to.include('no errors were found');
  });

  it('cuts the files of each repository by a polynomial of its own', async () => {
    const all = Array.from({ length: 5 }, () => randomPolynomial());
    expect(new Set(all).size).to.equal(5);
    for (const each of all) {
      expect(each, 'of degree 53, without the root 0').to.match(/^[23][0-9a-f]{12}[13579bdf]$/);
    }
    const { key, config } = await newRepository({
      password: PASSWORD,
      label: { user: 'u', host: 'h' },
      polynomial: all[0],
    });
    const source = {
      list: async function* () {
        yield { name: key.id, size: key.content.length };
      },
      get: async () => key.content,
    };
    expect(await openConfig(source, config, { password: PASSWORD })).to.include({
      keyId: key.id,
      polynomial: all[0],
    });
    expect((await failureOf(openConfig(source, config, { password: 'another' }))).code).to.equal('WRONG_KEY');
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
      isCut: false,
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

  it('reads if it may not write, without a lock', async () => {
    const repository = await bench.repository('read-only');
    const id = await save(repository);
    await rm(path.join(folderOf(repository), 'locks'), { recursive: true });
    const readOnly = { ...repository, isReadOnly: true };
    await restore(bench.engine, readOnly, { snapshotId: id, target: bench.at('from-read-only') });
    expect(await readdir(folderOf(repository))).not.to.include('locks');
  });
});

import { expect } from 'chai';
import { execFileSync } from 'node:child_process';
import { link, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import {
  backup,
  diffSnapshots,
  dump,
  type EngineProgress,
  listEntries,
  listSnapshots,
  readStats,
  type Repository,
  restore,
} from '../../../src/engine/index.ts';
import { RestoreObserver } from '../../../src/engine/operations/restore.ts';
import { mountSmallDisk, needsSmallDisk } from '../../support/small-disk.ts';
import { failureOf, openWorkbench, stockRestic, type Workbench, writeFiles } from './engine-support.ts';

/** The last three are what the first six would match as patterns. */
const ODD_NAMES = [
  'we[ird]*?',
  'back\\slash',
  'new\nline',
  '*',
  '!no',
  '$HOME',
  'weird-file',
  'backslash',
  'ünïcode',
];

describe('backup and restore with restic', function () {
  this.timeout(120_000);
  let bench: Workbench;
  let repository: Repository;
  let source: string;
  /** Of the first test. */
  let wholeId: string;

  before(async function () {
    bench = await openWorkbench(this);
    repository = await bench.repository();
    source = bench.at('source');
    await writeFiles(source, {
      'plain.txt': 'plain',
      'folder/big.bin': randomBytes(3_000_000),
      empty: '',
      ...Object.fromEntries(ODD_NAMES.map((name) => [`odd/${name}`, name])),
    });
    await symlink('plain.txt', path.join(source, 'link'));
  });
  after(async () => bench?.remove());

  const input = (paths = [source]) => ({ paths, host: 'device-1', tags: ['job-1'] });
  const target = () => mkdtemp(bench.at('target-'));

  it('reports progress and the full id of the snapshot, and restores everything as it was', async () => {
    const progress: EngineProgress[] = [];
    const made = await backup(bench.engine, repository, input(), {
      onProgress: (each) => progress.push(each),
    });
    expect(made.status).to.equal('completed');
    expect(made.unreadable).to.deep.equal({ paths: [], count: 0 });
    expect(made.filesNew).to.equal(3 + ODD_NAMES.length);
    expect(made.snapshotId).to.match(/^[0-9a-f]{64}$/);
    expect(made.bytesProcessed).to.be.greaterThan(3_000_000);
    expect(progress).not.to.be.empty;

    const [listed] = await listSnapshots(bench.engine, repository);
    expect(listed).to.include({ id: made.snapshotId, hostname: 'device-1' });
    expect(listed?.tags).to.deep.equal(['job-1']);

    wholeId = made.snapshotId ?? '';
    const folder = await target();
    const restored = await restore(bench.engine, repository, {
      snapshotId: made.snapshotId ?? '',
      target: folder,
    });
    expect(restored.status).to.equal('completed');
    execFileSync('diff', ['-r', '--no-dereference', source, path.join(folder, source)]);
    expect((await readdir(path.join(folder, source, 'odd'))).sort()).to.deep.equal([...ODD_NAMES].sort());
  });

  it('says how far a restore is', async () => {
    const progress: EngineProgress[] = [];
    const expected = { bytes: 3_000_000, files: 3 };
    const input = { snapshotId: wholeId, target: await target(), expected };
    const onProgress = (each: EngineProgress) => progress.push(each);
    await restore(bench.engine, repository, input, { onProgress, downloadKiBps: 700 });
    const bytes = progress.map((each) => each.bytes);
    expect(bytes, 'it grows').to.deep.equal([...bytes].sort((one, other) => one - other));
    const halfway = progress.filter((each) => each.phase === 'transferring' && each.percent !== 100);
    expect(halfway, JSON.stringify(progress)).not.to.be.empty;
    for (const each of progress) {
      expect(each).to.include({ totalBytes: 3_000_000, totalFiles: 3 });
      expect(each.bytes).to.be.at.most(3_000_000);
    }
  });

  it('restores selected paths by their literal names only', async () => {
    const selected = ODD_NAMES.slice(0, 6).map((name) => path.posix.join(source, 'odd', name));
    const folder = await target();
    await restore(bench.engine, repository, { snapshotId: wholeId, target: folder, selected });
    expect(await readdir(path.join(folder, source))).to.deep.equal(['odd']);
    expect((await readdir(path.join(folder, source, 'odd'))).sort()).to.deep.equal(
      ODD_NAMES.slice(0, 6).sort(),
    );
    const none = { snapshotId: wholeId, target: await target(), selected: ['/no/such/path'] };
    expect((await failureOf(restore(bench.engine, repository, none))).code).to.equal('PATH_MISSING');
  });

  it('calls a backup partial if a path does not exist, and fails if none does', async () => {
    const made = await backup(bench.engine, repository, input([source, '/no/such\nfolder']));
    expect(made.status).to.equal('partial');
    expect(made.snapshotId).to.match(/^[0-9a-f]{64}$/);
    expect(made.unreadable.paths).to.have.length(1);
    const failure = await failureOf(backup(bench.engine, repository, input(['/no/such/folder'])));
    expect(failure.code).to.equal('SOURCE_UNREADABLE');
  });

  it('leaves out what is excluded', async () => {
    const { snapshotId } = await backup(bench.engine, repository, { ...input(), excludes: ['*.bin', 'odd'] });
    const paths: string[] = [];
    for await (const entry of listEntries(bench.engine, repository, { snapshotId: snapshotId ?? '' })) {
      paths.push(entry.path);
    }
    expect(paths).to.include(path.join(source, 'plain.txt'));
    expect(paths.filter((each) => /big\.bin|odd/.test(each))).to.deep.equal([]);
  });

  it('lists one folder, streams one file, measures and compares snapshots', async () => {
    await writeFile(path.join(source, 'added.txt'), 'added');
    const after = (await backup(bench.engine, repository, input())).snapshotId ?? '';

    const names: string[] = [];
    const query = { snapshotId: after, folder: path.join(source, 'odd') };
    for await (const { name } of listEntries(bench.engine, repository, query)) names.push(name);
    expect(names.sort()).to.deep.equal([...ODD_NAMES].sort());

    const file = path.join(source, 'folder/big.bin');
    const chunks = await dump(bench.engine, repository, { snapshotId: after, path: file }).toArray();
    expect(Buffer.concat(chunks).equals(await readFile(file))).to.equal(true);
    const missing = dump(bench.engine, repository, { snapshotId: after, path: '/nope' }).toArray();
    expect((await failureOf(missing)).code).to.equal('PATH_MISSING');

    const changes: string[] = [];
    const sums = await diffSnapshots(bench.engine, repository, {
      from: wholeId,
      to: after,
      onChange: ({ path, modifier }) => void changes.push(`${modifier} ${path}`),
    });
    expect(changes).to.deep.equal([`+ ${path.join(source, 'added.txt')}`]);
    expect(sums?.added.files).to.equal(1);
    const size = await readStats(bench.engine, repository, { mode: 'restore', snapshotId: after });
    expect(size.bytes).to.be.greaterThan(3_000_000);
    await rm(path.join(source, 'added.txt'));
  });

  it('leaves the program when the reader of a list has read enough', async () => {
    for await (const entry of listEntries(bench.engine, repository, { snapshotId: wholeId })) {
      expect(entry.type).to.equal('dir');
      break;
    }
    expect(stockRestic(repository, 'list', 'locks')).to.equal('');
  });

  it('restores only into a folder that nobody else can fill with links', async () => {
    const run = async (folder: string) =>
      (await failureOf(restore(bench.engine, repository, { snapshotId: wholeId, target: folder }))).code;
    const real = await target();
    await symlink(real, bench.at('to-real'));
    await mkdir(bench.at('open'));
    execFileSync('chmod', ['777', bench.at('open')]);
    await writeFile(bench.at('file'), '');
    for (const folder of [
      bench.at('to-real'),
      bench.at('open'),
      bench.at('file'),
      '/',
      'relative',
      bench.at('a/b'),
    ]) {
      expect(await run(folder), folder).to.equal('TARGET_UNSAFE');
    }
    expect(await readdir(real)).to.deep.equal([]);
  });

  it('removes files of which a part is missing with all their names, and nothing outside of its folder', async () => {
    const folder = await target();
    await writeFiles(folder, {
      'outside/kept': 'kept',
      'in/torn': 'torn',
      'in/mode': 'mode',
      'in/f: open /x/y': '',
    });
    await link(path.join(folder, 'in/torn'), path.join(folder, 'in/second'));
    await mkdir(path.join(folder, 'in/a: open '));
    await symlink(path.join(folder, 'outside'), path.join(folder, 'in/a: open /dir'));
    const observed = new RestoreObserver();
    for (const line of [
      'ignoring error for /torn: ciphertext verification failed',
      'ignoring error for /mode: chmod /in/mode: not possible',
      'ignoring error for /../outside/kept: invalid child node name',
      'ignoring error for /a: open /dir/kept: ciphertext verification failed',
      'Fatal: There were 4 errors',
    ]) {
      observed.readError(line);
    }
    const failed = (await observed.failed(path.join(folder, 'in'), undefined)).report();
    expect(failed.paths.map((each) => each.path)).to.deep.equal([
      '/torn',
      '/mode',
      '/../outside/kept',
      '/a',
      '/second',
    ]);
    expect(await readdir(path.join(folder, 'outside'))).to.deep.equal(['kept']);
    expect((await readdir(path.join(folder, 'in'))).sort()).to.deep.equal(['a: open ', 'f: open ', 'mode']);
  });

  it('names a file that was never created by the list of the snapshot, if its name holds a colon', async () => {
    const observed = new RestoreObserver();
    for (const line of [
      'ignoring error for /large: of',
      'it: ciphertext verification failed',
      'ignoring error for /other: part: ciphertext verification failed',
    ]) {
      observed.readError(line);
    }
    const list = async function* () {
      yield* ['/large', '/large: of\nit', '/other', '/unconcerned'];
    };
    const { paths } = (await observed.failed(await target(), list)).report();
    expect(paths).to.deep.equal([
      { path: '/large: of\nit', reason: 'ciphertext verification failed' },
      { path: '/other', reason: 'part: ciphertext verification failed' },
    ]);
  });

  it('goes on in the folder of an interrupted restore', async () => {
    const folder = await target();
    const run = () => restore(bench.engine, repository, { snapshotId: wholeId, target: folder });
    await run();
    await writeFile(path.join(folder, source, 'folder/big.bin'), 'half');
    await run();
    expect((await stat(path.join(folder, source, 'folder/big.bin'))).size).to.equal(3_000_000);
  });

  it('says which disk is full, at once, and leaves no lock', async function () {
    const { snapshotId } = await backup(bench.engine, repository, input());
    const folder = bench.at('small');
    await mkdir(folder);
    const disk = needsSmallDisk(this, mountSmallDisk(folder, '2m'));
    try {
      const full = await bench.repository('small/repository');
      const failure = await failureOf(backup(bench.engine, full, input()));
      expect(failure.code, failure.detail).to.equal('DESTINATION_FULL');
      expect(await readdir(path.join(folder, 'repository', 'locks'))).to.deep.equal([]);
      await rm(path.join(folder, 'repository'), { recursive: true });
      const order = { snapshotId: snapshotId ?? '', target: path.join(folder, 'target') };
      expect((await failureOf(restore(bench.engine, repository, order))).code).to.equal('TARGET_FULL');
    } finally {
      disk.remove();
    }
  });

  it('refuses ids and paths that could be options or patterns', async () => {
    const restoring = (snapshotId: string, selected?: string[]) =>
      restore(bench.engine, repository, {
        snapshotId,
        target: bench.at('never'),
        ...(selected && { selected }),
      });
    for (const id of ['latest', '--help', 'abcd1234', '']) {
      const failure = await restoring(id).then(() => undefined, String);
      expect(failure, id).to.include('snapshotId');
    }
    const id = 'a'.repeat(64);
    for (const each of ['relative', '/a/../b', '/a\0b']) {
      expect(await restoring(id, [each]).then(() => undefined, String), each).to.include('selected');
    }
    expect((await failureOf(restoring(id))).code).to.equal('SNAPSHOT_MISSING');
  });
});

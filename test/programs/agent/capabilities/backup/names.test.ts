import { expect } from 'chai';
import fc from 'fast-check';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { folderSource, openRepository } from '../../../../../src/engine/index.ts';
import { pathText } from '../../../../../src/protocol/index.ts';
import { type BackupBench, openBackupBench, removeFolders } from './backup-bench.ts';
import { below, disturb, type NamedTree, namedTree, plant, present, type Present } from './named-tree.ts';

/** A hundred trees: MUSTER_NAMED_TREES=100. The seed of a failure is in its message: MUSTER_NAMED_SEED. */
const TREES = Number(process.env['MUSTER_NAMED_TREES'] ?? 4);
const SEED = Number(process.env['MUSTER_NAMED_SEED'] ?? 20_261_127);

describe('backups and restores of any names', function () {
  this.timeout(60_000 + TREES * 20_000);
  let bench: BackupBench;
  let source: Buffer;
  before(async function () {
    bench = await openBackupBench(this);
  });
  afterEach(() => removeFolders(bench.at('sources'), bench.at('target')));
  after(async () => bench?.close());

  const target = () => Buffer.from(bench.at('target'));
  const text = (...names: string[]) => [pathText(source), ...names].join('/');

  /** What the snapshot has, read by our own reader: `true` for a folder. */
  const listed = async (snapshotId: string) => {
    const { destination, keyHint } = bench.access;
    if (destination.type !== 'local') throw new Error('The repository is on disk.');
    const reader = await openRepository(folderSource(destination.path), {
      password: bench.password,
      keyHint: keyHint!,
    });
    const all = new Map<string, boolean>();
    for await (const { path: each, type } of reader.walk({ snapshotId, maxEntries: 100_000 })) {
      all.set(each, type === 'dir');
    }
    return all;
  };

  /** A selected restore, its dry run, and the disk after it all say the same. */
  async function restoreAndCompare(
    snapshotId: string,
    selectedPaths: string[],
    before: Map<string, Present>,
  ): Promise<'completed' | 'partial' | 'failed'> {
    removeFolders(bench.at('target'));
    const wanted = { snapshotId, selectedPaths };
    const planned = await bench.outcome('backup.restore', { ...wanted, dryRun: true });
    const done = await bench.outcome('backup.restore', wanted);
    const disk = await present(target());
    const files = [...disk].filter(([, { kind }]) => kind !== 'folder');
    const entries = await listed(snapshotId);
    const isSelected = (each: string) =>
      selectedPaths.some((one) => each === one || each.startsWith(`${one}/`));
    const expected = [...entries]
      .filter(([each, isFolder]) => !isFolder && isSelected(each))
      .map(([each]) => each);
    if (done.error !== undefined) {
      expect([...disk.keys()], done.error.message).to.deep.equal([]);
      expect(planned.error?.code).to.equal(done.error.code);
      return 'failed';
    }
    const { failed, status, filesRestored, bytesRestored } = done.output;
    const missed = new Set(failed.paths.map((each) => each.path));
    expect(
      files.map(([each]) => each).sort(),
      'everything that is there was selected, and the rest is named',
    ).to.deep.equal(expected.filter((each) => !missed.has(each)).sort());
    for (const one of selectedPaths) expect(disk.has(one) || missed.has(one), one).to.equal(true);
    expect(filesRestored).to.equal(files.length);
    expect(bytesRestored).to.equal(files.reduce((sum, [, { size }]) => sum + size, 0));
    expect(status).to.equal(failed.count === 0 ? 'completed' : 'partial');
    expect(failed.paths.filter(({ message }) => message === '')).to.deep.equal([]);
    for (const [each, found] of files) {
      const original = before.get(each.slice(pathText(source).length));
      if (original !== undefined) expect({ each, ...found }).to.deep.equal({ each, ...original });
    }
    const announced = planned.output!;
    expect([announced.status, announced.filesRestored, announced.bytesRestored]).to.deep.equal([
      status,
      filesRestored,
      bytesRestored,
    ]);
    expect(announced.failed.paths.map((each) => each.path).sort()).to.deep.equal([...missed].sort());
    return status;
  }

  async function roundTrip(tree: NamedTree, choices: readonly number[]) {
    removeFolders(bench.at('sources'));
    source = below(Buffer.from(bench.at('sources')), tree.name);
    await plant(source, tree);
    const before = await present(source);
    const stop = new AbortController();
    const disturbing = disturb(source, tree, stop.signal);
    const made = await bench.run('backup.run', { paths: [pathText(source)] });
    stop.abort();
    await disturbing;
    const { unreadable, status, snapshotId } = made;
    expect(status).to.equal(unreadable.count === 0 ? 'completed' : 'partial');
    expect(unreadable.paths.filter(({ message }) => message === '')).to.deep.equal([]);
    const entries = await listed(snapshotId!);
    const files = [...entries].filter(([, isFolder]) => !isFolder).length;
    const isQuiet = tree.restless === 0;
    if (isQuiet) {
      const named = unreadable.paths.map((each) => each.path);
      for (const each of before.keys()) {
        const isThere = entries.has(text(each.slice(1)));
        expect(isThere || named.some((one) => text(each.slice(1)).startsWith(one)), each).to.equal(true);
      }
    }
    const all = [...entries.keys()].filter((each) => each.startsWith(text('')));
    const selected = choices.map((choice) => all[choice % all.length] ?? text());
    const odd = choices[0]! % 3 === 0 ? [`${selected[0]}\\xe7`] : [];
    return {
      unreadable: unreadable.count,
      files,
      whole: await restoreAndCompare(snapshotId!, [text()], isQuiet ? before : new Map()),
      some: await restoreAndCompare(
        snapshotId!,
        [...new Set([...selected, ...odd])],
        isQuiet ? before : new Map(),
      ),
    };
  }

  it(`report what lies on the disk: ${TREES} random trees`, async () => {
    const sums = { trees: 0, files: 0, unreadable: 0, completed: 0, partial: 0, failed: 0 };
    const choices = fc.array(fc.nat(1000), { minLength: 1, maxLength: 4 });
    for (let seed = SEED; seed < SEED + TREES; seed++) {
      const [[tree, chosen]] = fc.sample(fc.tuple(namedTree, choices), { seed, numRuns: 1 }) as [
        [NamedTree, number[]],
      ];
      const { files, unreadable, whole, some } = await roundTrip(tree, chosen).catch((error: unknown) => {
        if (error instanceof Error) error.message = `MUSTER_NAMED_SEED=${seed}: ${error.message}`;
        throw error;
      });
      sums.trees += 1;
      sums.files += files;
      sums.unreadable += unreadable;
      sums[whole] += 1;
      sums[some] += 1;
    }
    // oxlint-disable-next-line no-console -- the figures of a long run
    if (process.env['MUSTER_NAMED_TREES'] !== undefined) console.log(JSON.stringify(sums));
    expect(sums.completed).to.be.greaterThan(0);
  });

  const plantOne = async (tree: Partial<NamedTree>) => {
    source = Buffer.from(bench.at('sources/long'));
    await plant(source, { name: Buffer.from('long'), inner: [], deepBytes: 0, restless: 0, ...tree });
  };

  it('restore everything else if a path is too long below the folder of the agent, and name it', async () => {
    await plantOne({ deepBytes: 4090, inner: [{ kind: 'file', name: Buffer.from('short'), size: 5 }] });
    const { status, snapshotId } = await bench.run('backup.run', { paths: [pathText(source)] });
    expect(status).to.equal('completed');
    const whole = { snapshotId: snapshotId!, selectedPaths: [text()] };
    const result = await bench.run('backup.restore', whole);
    expect(result).to.include({ status: 'partial', filesRestored: 1, bytesRestored: 5 });
    const deep = result.failed.paths.find((each) => each.path.length > 4080);
    expect(deep?.message).to.match(/: file name too long$/);
    expect([...(await present(target())).keys()].some((each) => each.endsWith('/short'))).to.equal(true);
    removeFolders(bench.at('target'));
    const only = { snapshotId: snapshotId!, selectedPaths: [deep!.path] };
    const failure = await bench.failure('backup.restore', only);
    expect(failure.code).to.equal('NOTHING_RESTORED');
    expect(failure.message.startsWith(`Nothing could be restored. ${text('ddd')}`)).to.equal(true);
  });

  it('name files whose path is longer than the system allows', async () => {
    await plantOne({ deepBytes: 4300, inner: [{ kind: 'file', name: Buffer.from('short'), size: 5 }] });
    const { status, unreadable } = await bench.run('backup.run', { paths: [pathText(source)] });
    expect(status).to.equal('partial');
    expect(unreadable.count).to.equal(1);
    expect(unreadable.paths[0]?.path.length).to.be.greaterThan(3800);
    expect(unreadable.paths[0]?.message).to.equal('file name too long');
  });

  it('leave a file as it is whose content is damaged in the repository', async () => {
    const large = Buffer.from('large: of\nit\xe9', 'latin1');
    await plantOne({
      inner: [
        { kind: 'file', name: large, size: 2_000_000 },
        { kind: 'file', name: Buffer.from('whole'), size: 3000 },
      ],
    });
    const { snapshotId } = await bench.run('backup.run', { paths: [pathText(source)] });
    const { destination } = bench.access;
    if (destination.type !== 'local') throw new Error('The repository is on disk.');
    await damageLargest(`${destination.path}/data`);
    const restored = below(target(), source.subarray(1));
    await mkdir(restored, { recursive: true });
    await writeFile(below(restored, large), 'older');
    const result = await bench.run('backup.restore', { snapshotId: snapshotId!, overwrite: 'always' });
    expect(result).to.include({ status: 'partial', filesRestored: 1, bytesRestored: 3000 });
    expect(result.failed.paths.map((each) => each.path)).to.deep.equal([text('large: of\nit\\xe9')]);
    expect(await readFile(below(restored, large), 'utf8')).to.equal('older');
  });
});

/** Changes one bit in the middle of the largest pack. */
async function damageLargest(data: string): Promise<void> {
  const [largest] = execFileSync(
    'bash',
    ['-c', 'find "$1" -type f -printf "%s %p\\n" | sort -rn', 'bash', data],
    {
      encoding: 'utf8',
    },
  ).split('\n');
  const file = largest?.replace(/^\d+ /, '') ?? '';
  const bytes = await readFile(file);
  bytes[bytes.length >> 1]! ^= 1;
  await chmod(file, 0o600);
  await writeFile(file, bytes);
}

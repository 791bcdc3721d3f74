import { expect } from 'chai';
import { createHash, randomBytes } from 'node:crypto';
import { readFile, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import {
  backup,
  type Difference,
  folderSource,
  type OpenedFile,
  openRepository,
  type Repository,
  type RepositoryReader,
} from '../../../src/engine/index.ts';
import {
  type ObjectKey,
  encryptObject,
  type ObjectSource,
} from '../../../src/engine/repository/object-encoding.ts';
import { failureOf, openWorkbench, PASSWORD, type Workbench, writeFiles } from './engine-support.ts';
import {
  masterKeyOf,
  putIndex,
  putObject,
  putSnapshot,
  putTree,
  sha256,
} from '../../support/engine/repository-forge.ts';

describe('the contents of snapshots', function () {
  this.timeout(60_000);
  let bench: Workbench;
  let repository: Repository;
  let place: string;
  let source: string;
  const limits = { entries: 1000, parts: 1000 };
  const signal = new AbortController().signal;
  const open = (from: ObjectSource = folderSource(place)) => openRepository(from, { password: PASSWORD });
  const backUp = async () =>
    (await backup(bench.engine, repository, { paths: [source], host: 'device-1' })).snapshotId ?? '';

  before(async function () {
    bench = await openWorkbench(this);
    repository = await bench.repository();
    place = bench.at('repository');
    source = bench.at('source');
  });
  after(async () => bench?.remove());

  async function openFile(
    reader: RepositoryReader,
    snapshotId: string,
    file: string,
    given = limits,
  ): Promise<OpenedFile> {
    const opened = await reader.openContent({ snapshotId, path: file }, { limits: given, signal });
    if (opened === 'too_large' || opened.type !== 'file') throw new Error(`${file} is not a file`);
    return opened;
  }
  async function bytesOf(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
    const all: Buffer[] = [];
    for await (const piece of pieces) all.push(piece);
    return Buffer.concat(all);
  }

  it('are read part by part, also from and to the middle of one', async () => {
    const big = Buffer.concat([randomBytes(6_000_000), Buffer.alloc(3_000_000, 'text '), randomBytes(99)]);
    await writeFiles(source, { 'big.bin': big, empty: '', 'in/small': 'small' });
    const snapshotId = await backUp();
    const reads: number[] = [];
    const counting: ObjectSource = {
      ...folderSource(place),
      get: (type, name, range) => {
        if (type === 'data') reads.push(range?.length ?? 0);
        return folderSource(place).get(type, name, range);
      },
    };
    const reader = await open(counting);
    const { content } = await openFile(reader, snapshotId, path.join(source, 'big.bin'));
    expect(content.length).to.equal(big.length);
    expect(sha256(await bytesOf(content.read()))).to.equal(sha256(big));
    for (const [first, last] of [
      [0, 0],
      [big.length - 1, big.length - 1],
      [2_999_999, 6_000_001],
    ] as const) {
      const part = await bytesOf(content.read({ first, last }));
      expect(part.equals(big.subarray(first, last + 1)), `${first}-${last}`).to.equal(true);
    }
    // One that is not waited for any more reads nothing further.
    reads.length = 0;
    for await (const _piece of content.read()) break;
    expect(reads).to.have.length(1);
    const empty = await openFile(reader, snapshotId, path.join(source, 'empty'));
    expect(await bytesOf(empty.content.read())).to.have.length(0);
    for (const missing of ['/no', path.join(source, 'in/small/x')]) {
      expect((await failureOf(openFile(reader, snapshotId, missing))).code).to.equal('PATH_MISSING');
    }
  });

  it('of more than the limits are not opened', async () => {
    const snapshotId = await backUp();
    const reader = await open();
    const ask = (place_: string, given: Partial<typeof limits>) =>
      reader.openContent({ snapshotId, path: place_ }, { limits: { ...limits, ...given }, signal });
    expect(await ask(path.join(source, 'big.bin'), { parts: 1 })).to.equal('too_large');
    expect(await ask('/', { entries: 3 })).to.equal('too_large');
    expect(await ask('/', { parts: 2 })).to.equal('too_large');
    const gone = { limits, signal: AbortSignal.abort() };
    expect((await failureOf(reader.openContent({ snapshotId, path: '/' }, gone))).code).to.equal('CANCELLED');
  });

  describe('if an attacker knows the key', () => {
    let key: ObjectKey;
    before(async () => {
      key = await masterKeyOf(place, PASSWORD);
    });
    const put = async (text: string) => {
      const plain = Buffer.from(text);
      const blob = encryptObject(key, plain);
      const pack = await putObject(place, 'data', blob);
      return { id: sha256(plain), pack, length: blob.length };
    };

    it('are found behind false entries of the index, and never taken for others', async () => {
      const [real, other] = [await put('the real part'), await put('another part that is longer')];
      const entry = (pack: string, length: number) => ({
        id: pack,
        blobs: [{ id: real.id, type: 'data', offset: 0, length }],
      });
      await putIndex(place, key, [entry(other.pack, other.length), entry(other.pack, other.length - 1)]);
      const tree = await putTree(place, key, [
        { name: 'f', type: 'file', size: 13, content: [real.id] },
        { name: 'gone', type: 'file', size: 1, content: ['a'.repeat(64)] },
      ]);
      const snapshotId = await putSnapshot(place, key, tree);
      // Only false ones: nothing else than the part is ever handed out.
      const alone = await failureOf(open().then((reader) => openFile(reader, snapshotId, '/f')));
      expect(alone.code).to.equal('REPOSITORY_DAMAGED');
      await putIndex(place, key, [entry(real.pack, real.length)]);
      const { content } = await openFile(await open(), snapshotId, '/f');
      expect((await bytesOf(content.read())).toString()).to.equal('the real part');
      const missing = await failureOf(open().then((reader) => openFile(reader, snapshotId, '/gone')));
      expect(missing.code).to.equal('REPOSITORY_DAMAGED');
    });

    it('cost no memory for a part that claims to be huge', async () => {
      const { pack, length } = await put('x');
      const id = createHash('sha256').update('huge').digest('hex');
      const blob = { id, type: 'data', offset: 0, length, uncompressed_length: 200 * 1024 * 1024 };
      await putIndex(place, key, [{ id: pack, blobs: [blob] }]);
      const tree = await putTree(place, key, [{ name: 'f', type: 'file', size: 1, content: [id] }]);
      const snapshotId = await putSnapshot(place, key, tree);
      const { content } = await openFile(await open(), snapshotId, '/f');
      const before = process.memoryUsage().rss;
      expect((await failureOf(bytesOf(content.read()))).code).to.equal('REPOSITORY_DAMAGED');
      expect(process.memoryUsage().rss - before).to.be.lessThan(50 * 1024 * 1024);
    });
  });

  describe('are compared', () => {
    async function differences(before: string, after: string, within = '/', from?: ObjectSource) {
      const reader = await open(from);
      const found: Difference[] = [];
      let compared = 0;
      for await (const folder of reader.compare({ before, after, path: within })) {
        compared += folder.compared;
        found.push(...folder.differences);
      }
      const texts = found.map(({ kind, path: place_ }) => `${kind} ${place_}`.replace(source, ''));
      return { texts: texts.filter((text) => !text.startsWith('changed /tmp')), found, compared };
    }

    it('without reading what is the same', async () => {
      await rm(source, { recursive: true });
      const same = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`same/${at}`, `${at}`]));
      await writeFiles(source, {
        ...same,
        'b/changed': 'old',
        'b/gone/inner': 'x',
        kind: 'file',
        stays: 's',
      });
      await symlink('one', path.join(source, 'link'));
      const first = await backUp();
      await rm(path.join(source, 'b/gone'), { recursive: true });
      for (const name of ['kind', 'link']) await rm(path.join(source, name));
      await symlink('two', path.join(source, 'link'));
      await writeFiles(source, { 'b/changed': 'new', 'new/deep/file': 'y', 'kind/inside': 'z' });
      const second = await backUp();

      const { texts, found, compared } = await differences(first, second);
      expect(texts.sort()).to.deep.equal([
        'added /kind/inside',
        'added /new',
        'added /new/deep',
        'added /new/deep/file',
        'changed /b/changed',
        'changed /link',
        'removed /b/gone',
        'removed /b/gone/inner',
        'type_changed /kind',
      ]);
      expect(compared).to.be.lessThan(40);
      const changed = found.find(({ path: each }) => each.endsWith('b/changed'));
      expect(changed?.after).to.include({ sizeBytes: 3, type: 'file' });
      const within = await differences(first, second, path.join(source, 'new'));
      expect(within.texts).to.deep.equal(['added /new/deep', 'added /new/deep/file']);
      expect((await differences(first, first)).compared).to.equal(0);
      expect((await failureOf(differences(first, second, '/none'))).code).to.equal('PATH_MISSING');
    });

    it('even if a folder has tens of thousands of entries, or is many folders at once', async () => {
      const key = await masterKeyOf(place, PASSWORD);
      const many = (size: number) =>
        Array.from({ length: 30_000 }, (_, at) => ({
          name: `file-${at}`,
          type: 'file',
          size: at % 7 ? 1 : size,
        }));
      const snapshot = async (nodes: readonly object[]) =>
        putSnapshot(place, key, await putTree(place, key, nodes));
      const { found } = await differences(await snapshot(many(1)), await snapshot(many(2)));
      expect(found).to.have.length(Math.ceil(30_000 / 7));

      let tree = await putTree(place, key, [{ name: 'end', type: 'file' }]);
      const ten = (subtree: string) =>
        Array.from({ length: 10 }, (_, at) => ({ name: `${at}`, type: 'dir', subtree }));
      for (let level = 0; level < 9; level++) tree = await putTree(place, key, ten(tree));
      const [bomb, nothing] = [await putSnapshot(place, key, tree), await snapshot([])];
      const reader = await open();
      let compared = 0;
      for await (const folder of reader.compare({ before: nothing, after: bomb, path: '/' })) {
        compared += folder.compared;
        if (compared > 5000) break;
      }
      expect(compared).to.be.lessThan(5100);
    });
  });

  it('are what was backed up, as the disk has it', async () => {
    await writeFiles(source, { same: 'as the disk' });
    const snapshotId = await backUp();
    const file = path.join(source, 'same');
    const { content, contentId } = await openFile(await open(), snapshotId, file);
    expect(await bytesOf(content.read())).to.deep.equal(await readFile(file));
    // Folders above the source may have changed meanwhile, so the reader has to know the index of this backup.
    const snapshotAgain = await backUp();
    const again = await openFile(await open(), snapshotAgain, file);
    expect(again.contentId).to.equal(contentId);
  });
});

import { expect } from 'chai';
import { randomBytes } from 'node:crypto';
import { readdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import {
  backup,
  folderSource,
  listEntries,
  openRepository,
  type Repository,
} from '../../../src/engine/index.ts';
import {
  encryptObject,
  type ObjectKey,
  contentLength,
} from '../../../src/engine/repository/object-encoding.ts';
import { BlobIndex } from '../../../src/engine/repository/blob-index.ts';
import { unquoteName } from '../../../src/engine/repository/tree.ts';
import {
  failureOf,
  openWorkbench,
  PASSWORD,
  stockRestic,
  type Workbench,
  writeFiles,
} from './engine-support.ts';
import {
  damage,
  masterKeyOf,
  putIndex,
  putKey,
  putObject,
  putSnapshot,
  putTree,
} from '../../support/engine/repository-forge.ts';

const NAMES = [
  'we[ird]*?',
  'back\\slash',
  'new\nline',
  'quote"',
  "it's",
  'ünïcode',
  '\u200bhidden',
  'e\u0301',
  '漢字',
  '\u0007',
];

describe('the reader of repositories', function () {
  this.timeout(120_000);
  let bench: Workbench;
  let source: string;
  let plain: Repository;
  const folderOf = (repository: Repository) =>
    repository.destination.type === 'local' ? repository.destination.path : '';
  const open = (repository: Repository, keyHint?: string) =>
    openRepository(folderSource(folderOf(repository)), { password: PASSWORD, keyHint });

  before(async function () {
    bench = await openWorkbench(this);
    plain = await bench.repository('plain');
    source = bench.at('source');
    await writeFiles(source, {
      'big.bin': randomBytes(2_000_000),
      empty: '',
      'deep/er/file': 'x',
      ...Object.fromEntries(NAMES.map((name) => [`odd/${name}`, name])),
      ...Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`many/${at}`, `${at}`])),
    });
    await symlink('big.bin', path.join(source, 'link'));
  });
  after(async () => bench?.remove());

  async function readsTheSameAsRestic(repository: Repository): Promise<void> {
    const made = await backup(bench.engine, repository, { paths: [source], host: 'device-1' });
    const snapshotId = made.snapshotId ?? '';
    const expected: object[] = [];
    for await (const { name, path, type, size = 0, mode, mtime } of listEntries(bench.engine, repository, {
      snapshotId,
    })) {
      expected.push({ name, path, type, sizeBytes: size, mode, modifiedAt: mtime });
    }
    const reader = await open(repository);
    const seen: object[] = [];
    for await (const entry of reader.walk({ snapshotId, maxEntries: 10_000 })) seen.push(entry);
    const order = (all: object[]) => all.map((each) => JSON.stringify(each, Object.keys(each).sort())).sort();
    expect(seen.length).to.be.greaterThan(300);
    expect(order(seen)).to.deep.equal(order(expected));

    const folder = { snapshotId, path: path.join(source, 'many') };
    const pages = await Promise.all(
      [0, 100, 200, 300].map((offset) => reader.listFolder({ ...folder, offset, limit: 100 })),
    );
    expect(pages.map(({ entries, total }) => [entries.length, total])).to.deep.equal([
      [100, 300],
      [100, 300],
      [100, 300],
      [0, 300],
    ]);
    expect(new Set(pages.flatMap(({ entries }) => entries.map(({ name }) => name)))).to.have.property(
      'size',
      300,
    );
    const odd = await reader.listFolder({
      snapshotId,
      path: path.join(source, 'odd'),
      offset: 0,
      limit: 100,
    });
    expect(odd.entries.map(({ name }) => name).sort()).to.deep.equal([...NAMES].sort());
    for (const missing of ['/no', path.join(source, 'empty'), path.join(source, 'link/x')]) {
      expect(
        (await failureOf(reader.listFolder({ snapshotId, path: missing, offset: 0, limit: 1 }))).code,
      ).to.equal('PATH_MISSING');
    }
    const absent = { snapshotId: 'a'.repeat(64), path: '/', offset: 0, limit: 1 };
    expect((await failureOf(reader.listFolder(absent))).code).to.equal('SNAPSHOT_MISSING');
  }

  it('reads compressed repositories (format 2) as restic does', () => readsTheSameAsRestic(plain));

  it('leaves the folder of the keys once one of them has opened', async () => {
    await open(plain);
    const numbers = await readdir('/proc/self/fd');
    const files = await Promise.all(
      numbers.map((number) => readlink(`/proc/self/fd/${number}`).catch(() => 'closed meanwhile')),
    );
    expect(files).not.to.include(path.join(folderOf(plain), 'keys'));
  });

  it('reads repositories of format 1 as restic does', async () => {
    const repository: Repository = {
      destination: { type: 'local', path: bench.at('first') },
      password: PASSWORD,
    };
    stockRestic(repository, 'init', '--repository-version', '1');
    await readsTheSameAsRestic(repository);
  });

  describe('meets an attacker who knows the key', () => {
    let folder: string;
    let key: ObjectKey;
    let repository: Repository;
    let count = 0;

    beforeEach(async () => {
      repository = await bench.repository(`hostile-${(count += 1)}`);
      folder = folderOf(repository);
      key = await masterKeyOf(folder, PASSWORD);
    });

    const dir = (name: string, subtree: string) => ({ name, type: 'dir', subtree });
    async function entries(tree: string, maxEntries = 1000): Promise<string[]> {
      return entriesOf(await putSnapshot(folder, key, tree), maxEntries);
    }
    async function entriesOf(snapshotId: string, maxEntries = 1000): Promise<string[]> {
      const reader = await open(repository);
      const seen: string[] = [];
      for await (const entry of reader.walk({ snapshotId, maxEntries })) seen.push(entry.path);
      return seen;
    }
    const codeOf = async (work: Promise<unknown>) => (await failureOf(work)).code;

    it('and refuses keys that would take its memory, before it derives anything', async () => {
      const junk = [
        { kdf: 'none' },
        { N: 2 ** 20, r: 64 },
        { N: 2 ** 25 },
        { N: 3 },
        { r: 2 ** 30 },
        { p: 2 ** 30 },
        { N: -1 },
        { N: 2 ** 20, r: 1, p: 64 },
        { salt: '' },
        { data: 'AAAA' },
        { data: 7 },
      ];
      for (const change of junk) await putKey(folder, key, PASSWORD, change);
      await putObject(folder, 'keys', Buffer.from('{'));
      await putObject(folder, 'keys', Buffer.alloc(1_000_000, '['));
      const before = process.memoryUsage().rss;
      await open(repository);
      expect(process.memoryUsage().rss - before).to.be.lessThan(100 * 1024 * 1024);
      expect(await codeOf(open(repository, 'f'.repeat(64)))).to.equal('WRONG_KEY');
      await open(repository, repository.keyHint);
    });

    it('and opens keys as restic makes them on a fast machine, and on a busy one', async () => {
      const costs = [
        { N: 2 ** 15, r: 8, p: 9 },
        { N: 2 ** 9, r: 8, p: 100 },
      ];
      for (const cost of costs) await open(repository, await putKey(folder, key, PASSWORD, {}, cost));
    });

    it('and finds the key by its hint among many that are well formed', async () => {
      for (let at = 0; at < 60; at++) await putKey(folder, key, 'another password');
      await open(repository, repository.keyHint?.slice(0, 8));
      for (const name of await readdir(path.join(folder, 'keys'))) {
        if (name === repository.keyHint) await rm(path.join(folder, 'keys', name));
      }
      expect(await codeOf(open(repository))).to.equal('WRONG_KEY');
    });

    it('and notices every changed byte', async () => {
      const tree = await putTree(folder, key, [{ name: 'a', type: 'file' }]);
      const snapshotId = await putSnapshot(folder, key, tree);
      const objects = async (type: string) => {
        const names = await readdir(path.join(folder, type), { recursive: true });
        return names
          .filter((name) => path.basename(name).length === 64)
          .map((name) => path.join(folder, type, name));
      };
      for (const type of ['index', 'data', 'snapshots']) {
        for (const file of await objects(type)) {
          await damage(file, 20);
          expect(await codeOf(entriesOf(snapshotId)), type).to.equal('REPOSITORY_DAMAGED');
          await damage(file, 20);
        }
      }
      expect(await entriesOf(snapshotId)).to.deep.equal(['/a']);
    });

    it('and finds the true place of a folder behind false ones', async () => {
      const other = await putTree(folder, key, [{ name: 'other', type: 'file' }]);
      const tree = await putTree(folder, key, [{ name: 'true', type: 'file' }]);
      const lies = ['0', '1', '2'].map((digit) => ({
        id: digit.repeat(64),
        blobs: [{ id: tree, type: 'tree', offset: 0, length: 40 }],
      }));
      await putIndex(folder, key, lies);
      expect(await entries(tree)).to.deep.equal(['/true']);
      expect(await entries(other)).to.deep.equal(['/other']);
    });

    it('and counts folders that are one object many times, and leaves after enough of them', async () => {
      let tree = await putTree(folder, key, []);
      for (let level = 0; level < 12; level++) {
        tree = await putTree(
          folder,
          key,
          Array.from({ length: 10 }, (_, at) => dir(`${at}`, tree)),
        );
      }
      expect(await codeOf(entries(tree, 5000))).to.equal('REPOSITORY_DAMAGED');
    });

    it('and refuses names that lead elsewhere, and folders that are none', async () => {
      for (const name of ['..', '.', '', 'a/b', '/etc', 'a\0b', '\\x2fetc', '\\u002e.']) {
        const tree = await putTree(folder, key, [{ name, type: 'file' }]);
        expect(await codeOf(entries(tree)), name).to.equal('REPOSITORY_DAMAGED');
      }
      const wrong = await putTree(folder, key, [dir('a', 'not-a-hash')]);
      expect(await codeOf(entries(wrong))).to.equal('REPOSITORY_DAMAGED');
      const dangling = await putTree(folder, key, [dir('a', 'b'.repeat(64))]);
      expect(await codeOf(entries(dangling))).to.equal('REPOSITORY_DAMAGED');
    });

    it('and takes no memory for a compressed object that claims to be huge', async () => {
      // The header of a Zstandard frame: 4 GiB, then nothing.
      const bomb = Buffer.concat([Buffer.from('0228b52ffda0ffffffff', 'hex'), Buffer.alloc(40)]);
      expect(contentLength(bomb.subarray(1))).to.equal(0xffffffff);
      await putObject(folder, 'index', encryptObject(key, bomb));
      const before = process.memoryUsage().rss;
      expect(await codeOf(open(repository))).to.equal('REPOSITORY_DAMAGED');
      expect(process.memoryUsage().rss - before).to.be.lessThan(100 * 1024 * 1024);
    });

    it('and refuses an index that is larger than allowed, or not JSON', async () => {
      const blobs = Array.from({ length: 2000 }, () => ({
        id: randomBytes(32).toString('hex'),
        type: 'tree',
        offset: 0,
        length: 40,
      }));
      const index = await putIndex(folder, key, [{ id: 'a'.repeat(64), blobs }]);
      const small = openRepository(folderSource(folder), { password: PASSWORD }, { maxBlobs: 1000 });
      expect(await codeOf(small)).to.equal('REPOSITORY_DAMAGED');
      await open(repository);
      await rm(path.join(folder, 'index', index));
      for (const text of ['{', '[]', '{"packs":{}}', '{"packs":[{"id":"a","blobs":[]}]}', 'x']) {
        const name = await putObject(folder, 'index', encryptObject(key, Buffer.from(text)));
        expect(await codeOf(open(repository)), text).to.equal('REPOSITORY_DAMAGED');
        await rm(path.join(folder, 'index', name));
      }
    });
  });
});

describe('the index of blobs', () => {
  const blob = (id: string, offset = 0) => ({ id, type: 'tree' as const, offset, length: 40 });

  it('finds each of many, and nothing else', () => {
    const index = new BlobIndex();
    const ids = Array.from({ length: 20_000 }, () => randomBytes(32).toString('hex'));
    ids.forEach((id, at) => index.addPack(`pack-${at % 7}`, [blob(id, at)]));
    expect(index.size).to.equal(ids.length);
    for (const [at, id] of ids.entries()) {
      expect([...index.find(id)]).to.deep.equal([
        { pack: `pack-${at % 7}`, offset: at, length: 40, contentLength: undefined },
      ]);
    }
    expect([...index.find('0'.repeat(64))]).to.deep.equal([]);
  });

  it('is not slowed down by ids that are chosen to collide, or that repeat', () => {
    const index = new BlobIndex();
    // Of all ids but a few bytes are alike, wherever these are.
    const chosen = Array.from({ length: 64_000 }, (_, at) => {
      const place = (at % 8) * 8;
      const counter = Math.floor(at / 8)
        .toString(16)
        .padStart(8, '0');
      return blob(`${'0'.repeat(place)}${counter}${'0'.repeat(56 - place)}`);
    });
    const repeated = Array.from({ length: 50_000 }, () => blob('f'.repeat(64)));
    const before = process.cpuUsage();
    index.addPack('a', chosen);
    index.addPack('b', repeated);
    const { user } = process.cpuUsage(before);
    // Each of the eight words has a 0, which is one id.
    expect(index.size).to.equal(64_000 + 8);
    // A list of all of them would take minutes.
    expect(user / 1e6).to.be.lessThan(5);
  });
});

describe('names as Go quotes them', () => {
  it('are read as the bytes that they stand for', () => {
    const cases: [string, string | Buffer][] = [
      ['plain', 'plain'],
      ['a\\nb\\tc', 'a\nb\tc'],
      ['\\\\x41', '\\x41'],
      ['\\"', '"'],
      ['\\u200b\\U0001f600', '\u200b😀'],
      ['\\xc3\\xbc', 'ü'],
      ['\\xff', Buffer.of(0xff)],
      ['\\Uffffffff', '\ufffd'],
      ['\\101', 'A'],
      ['odd\\', 'odd\\'],
    ];
    for (const [quoted, name] of cases) {
      expect(unquoteName(quoted).equals(Buffer.from(name)), quoted).to.equal(true);
    }
  });
});

import { randomBytes } from 'node:crypto';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import fc from 'fast-check';
import { EngineError } from '../../../src/engine/index.ts';
import { openExt } from '../../../src/engine/filesystems/ext-file-system.ts';
import { volumeOf } from '../../../src/engine/filesystems/volume-bytes.ts';
import { needsDiskPrograms, onDisk } from '../../support/disk-image.ts';

/** Files of ext file systems, read as bytes: against what mke2fs and debugfs have made. */

const query = { limits: { entries: 10_000, parts: 1000 }, signal: new AbortController().signal };

const readerOf = (bytes: Buffer) => {
  const content = {
    length: bytes.length,
    async *read({ first, last } = { first: 0, last: bytes.length - 1 }) {
      // In pieces of an odd size, as the parts of a file in a repository are.
      for (let at = first; at <= last; at += 70_001) {
        yield bytes.subarray(at, Math.min(at + 70_001, last + 1));
      }
    },
  };
  return openExt(volumeOf(content, { offset: 0, sizeBytes: bytes.length }));
};
type Reader = Awaited<ReturnType<typeof readerOf>>;

async function fileIn(reader: Reader, name: string, range?: { first: number; last: number }) {
  const opened = await reader.openContent(name, query);
  if (opened === 'too_large' || opened.type !== 'file') throw new Error('no file');
  const pieces: Buffer[] = [];
  for await (const piece of opened.content.read(range)) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function walk(reader: Reader, name = '/') {
  const opened = await reader.openContent(name, query);
  if (opened === 'too_large' || opened.type !== 'dir') throw new Error('no folder');
  const found = new Map<string, string>();
  for await (const { path: where, leftOut, content, entry } of opened.read()) {
    let length = 0;
    if (content !== null) for await (const piece of content.read()) length += piece.length;
    found.set(where, leftOut ?? (content === null ? entry.type : String(length)));
  }
  return found;
}

/** The whole tree, with every byte of it. */
async function takeApart(reader: Reader) {
  const found = [];
  for await (const { content, ...entry } of reader.tree({ signal: query.signal })) {
    let length = 0;
    // Of a file that claims to be endless, the beginning.
    const last = Math.min(5_000_000, content?.length ?? 0) - 1;
    const pieces = content?.read({ first: 0, last }) ?? [];
    try {
      for await (const piece of pieces) length += piece.length;
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'FILE_SYSTEM_DAMAGED') throw error;
    }
    found.push({ ...entry, length });
  }
  return found;
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof EngineError ? error.code : `not expected: ${String(error)}`),
  );

describe('an ext file system in an image', function () {
  this.timeout(60_000);
  let folder: string;
  const big = randomBytes(3_000_017);
  const volumes = new Map<string, Buffer>();

  /** A sparse file, links, a device, a large folder, a file in pieces, a name that is no UTF-8. */
  async function makeVolume(name: string, args: readonly string[]): Promise<Buffer> {
    const file = path.join(folder, `${name}.raw`);
    const handle = await open(file, 'wx');
    await handle.truncate(24 * 2 ** 20);
    await handle.close();
    onDisk('mke2fs', ['-q', '-F', ...args, file]);
    const many = Array.from({ length: 600 }, (_none, at) => `write ${folder}/small file-${at}`);
    const script = [
      'mkdir etc',
      'cd etc',
      `write ${folder}/small hostname`,
      'symlink link /etc/passwd',
      `symlink far ${'long/'.repeat(40)}`,
      'mknod pipe p',
      'cd /',
      `write ${folder}/big big.bin`,
      `write ${folder}/holes holes.bin`,
      'mkdir many',
      'cd many',
      ...many,
      ...Array.from({ length: 300 }, (_none, at) => `rm file-${2 * at}`),
      'cd /',
      // Into the gaps between the small ones.
      `write ${folder}/big pieces.bin`,
    ];
    onDisk('debugfs', ['-w', '-f', '-', file], `${script.join('\n')}\n`);
    return readFile(file);
  }

  before(async function () {
    needsDiskPrograms(this);
    folder = await mkdtemp(path.join(tmpdir(), 'muster-ext-'));
    const write = async (name: string, work: (to: Awaited<ReturnType<typeof open>>) => Promise<unknown>) => {
      const handle = await open(path.join(folder, name), 'wx');
      await work(handle);
      await handle.close();
    };
    await write('small', (to) => to.writeFile('web-01\n'));
    await write('big', (to) => to.writeFile(big));
    await write('holes', async (to) => {
      await to.write(Buffer.from('first'), 0, 5, 0);
      await to.write(Buffer.from('last'), 0, 4, 5_000_000);
    });
    for (const [name, args] of [
      ['ext4', ['-t', 'ext4', '-b', '4096']],
      [
        'ext4 of small blocks',
        ['-t', 'ext4', '-b', '1024', '-O', '64bit,meta_bg,^resize_inode', '-g', '1024'],
      ],
      ['ext3', ['-t', 'ext3', '-b', '1024']],
      ['ext2 of old', ['-t', 'ext2', '-b', '2048', '-I', '128', '-O', '^dir_index,^filetype']],
    ] as const) {
      volumes.set(name, await makeVolume(name.replaceAll(' ', '-'), args));
    }
  });
  after(async () => {
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  it('gives its folders and files, in every form of their maps', async () => {
    for (const [name, bytes] of volumes) {
      const reader = await readerOf(bytes);
      expect(reader.isSettled, name).to.equal(true);
      const { entries, total } = await reader.listFolder({ path: '/etc', offset: 0, limit: 10 });
      expect(total, name).to.equal(4);
      expect(entries.map(({ name: each, type }) => `${each} ${type}`)).to.deep.equal([
        'far symlink',
        'hostname file',
        'link symlink',
        'pipe fifo',
      ]);
      expect((await fileIn(reader, '/etc/hostname')).toString()).to.equal('web-01\n');
      expect((await fileIn(reader, 'big.bin')).equals(big), name).to.equal(true);
      expect((await fileIn(reader, 'pieces.bin')).equals(big), name).to.equal(true);
      const part = await fileIn(reader, 'pieces.bin', { first: 999_999, last: 1_100_000 });
      expect(part.equals(big.subarray(999_999, 1_100_001)), name).to.equal(true);
      const holes = await fileIn(reader, 'holes.bin');
      expect([
        holes.length,
        holes.toString('latin1', 0, 5),
        holes.toString('latin1', 5_000_000),
      ]).to.deep.equal([5_000_004, 'first', 'last']);
      expect(holes.subarray(5, 5_000_000).every((byte) => byte === 0)).to.equal(true);
      const many = await reader.listFolder({ path: '/many', offset: 295, limit: 10 });
      expect([many.total, many.entries.length]).to.deep.equal([300, 5]);
      expect(many.entries.at(-1)).to.deep.include({ name: 'file-99', sizeBytes: 7 });
      const all = await walk(reader);
      expect(all.get('etc/link')).to.equal('symlink');
      expect(all.get('big.bin')).to.equal('3000017');
      expect([...all.keys()].filter((each) => each.startsWith('many/'))).to.have.length(300);
    }
  });

  it('is taken apart folder by folder, with all that a copy needs', async () => {
    for (const [name, bytes] of volumes) {
      const reader = await readerOf(bytes);
      const found = await takeApart(reader);
      const at = (where: string) => found.find(({ path: each }) => each === where);
      expect(at('/etc/link'), name).to.deep.include({ type: 'symlink', depth: 1 });
      expect(at('/etc/link')?.linkTarget?.toString()).to.equal('/etc/passwd');
      expect(at('/etc/far')?.linkTarget?.toString()).to.equal('long/'.repeat(40));
      expect(at('/big.bin')).to.deep.include({ sizeBytes: 3_000_017, length: 3_000_017 });
      expect(at('/big.bin')?.inode).to.include({
        links: 1,
        uid: process.getuid?.(),
        gid: process.getgid?.(),
      });
      expect(at('/big.bin')?.inode?.modifiedAt).to.match(/^20\d\d-.*\.\d{6}Z$/);
      // What is in a folder follows it, and then comes the next one.
      const order = found.map(({ path: each }) => each);
      expect(order.slice(order.indexOf('/etc'), order.indexOf('/etc') + 5)).to.deep.equal([
        '/etc',
        '/etc/far',
        '/etc/hostname',
        '/etc/link',
        '/etc/pipe',
      ]);
      const few = [];
      const enters = (folder: string) => folder === '/etc';
      for await (const { path: each } of reader.tree({ enters, signal: query.signal })) few.push(each);
      expect(few).to.include('/etc/pipe').and.include('/many').and.not.include('/many/file-1');
      expect(await reader.findEntry('/etc/link')).to.include({ type: 'symlink' });
      expect(await codeOf(reader.findEntry('/etc/link/x'))).to.equal('PATH_MISSING');
    }
  });

  it('follows no link and no way out of itself', async () => {
    const reader = await readerOf(volumes.get('ext4') ?? Buffer.alloc(0));
    for (const where of [
      '/etc/link',
      '/etc/pipe',
      '/none',
      '/etc/hostname/x',
      '/etc/../big.bin',
      '/etc/far/x',
    ]) {
      expect(await codeOf(reader.openContent(where, query)), where).to.equal('PATH_MISSING');
    }
    const small = { ...query, limits: { entries: 3, parts: 1 } };
    expect(await reader.openContent('/', small)).to.equal('too_large');
    expect(await reader.openContent('/big.bin', small)).to.equal('too_large');
  });

  it('is refused with a code if it is of another kind', async () => {
    expect(await codeOf(readerOf(Buffer.alloc(100_000)))).to.equal('FILE_SYSTEM_UNSUPPORTED');
    expect(await codeOf(readerOf(Buffer.alloc(10)))).to.equal('FILE_SYSTEM_UNSUPPORTED');
    const cut = (volumes.get('ext4') ?? Buffer.alloc(0)).subarray(0, 2 ** 20);
    expect(await codeOf(readerOf(cut))).to.equal('FILE_SYSTEM_DAMAGED');
    const unknown = Buffer.from(volumes.get('ext4') ?? Buffer.alloc(0));
    unknown.writeUInt32LE(unknown.readUInt32LE(1024 + 96) | 0x8000, 1024 + 96);
    expect(await codeOf(readerOf(unknown))).to.equal('FILE_SYSTEM_UNSUPPORTED');
    const inUse = Buffer.from(volumes.get('ext4') ?? Buffer.alloc(0));
    inUse.writeUInt32LE(inUse.readUInt32LE(1024 + 96) | 0x4, 1024 + 96);
    expect((await readerOf(inUse)).isSettled).to.equal(false);
  });

  it('ends whatever is written into it', async () => {
    const names = [...volumes.keys()];
    // The structures lie in the first megabyte: half of the changes hit the superblock, inodes, folders and maps.
    const change = fc.record({
      volume: fc.constantFrom(...names),
      at: fc.oneof(fc.nat(1_000_000), fc.integer({ min: 1024, max: 2048 })),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }),
      times: fc.integer({ min: 1, max: 40 }),
    });
    await fc.assert(
      fc.asyncProperty(change, async ({ volume, at, bytes, times }) => {
        const hostile = Buffer.from(volumes.get(volume) ?? Buffer.alloc(0));
        for (let index = 0; index < times; index += 1) hostile.set(bytes, (at + index * 4099) % 1_500_000);
        const read = async (reader: Reader) => [await walk(reader), await takeApart(reader)];
        const code = await codeOf(readerOf(hostile).then(read));
        expect(code).to.be.oneOf([
          'none',
          'FILE_SYSTEM_DAMAGED',
          'FILE_SYSTEM_UNSUPPORTED',
          'PATH_MISSING',
          'not expected: Error: no folder',
        ]);
      }),
      { numRuns: 60, endOnFailure: true },
    );
  });

  it('ends if a folder holds itself, and if a map leads back into itself', async () => {
    const file = path.join(folder, 'circle.raw');
    const handle = await open(file, 'wx');
    await handle.truncate(8 * 2 ** 20);
    await handle.close();
    onDisk('mke2fs', ['-q', '-F', '-t', 'ext2', '-b', '1024', file]);
    onDisk(
      'debugfs',
      ['-w', '-f', '-', file],
      `mkdir a\nmkdir a/b\nln a a/b/again\nwrite ${folder}/big big\nset_inode_field big block[TIND] 500\nset_inode_field big size 900000000\n`,
    );
    const found = await walk(await readerOf(await readFile(file)));
    expect(found.get('a/b/again')).to.equal('damaged');
  });
});

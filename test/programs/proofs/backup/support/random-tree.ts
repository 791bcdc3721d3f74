import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, link, lutimes, mkdir, open, symlink, utimes } from 'node:fs/promises';
import fc from 'fast-check';
import { setAttribute } from './tree.ts';

/** Random trees of files: names of any bytes that Linux allows, and everything that a file can be. */

interface RandomFile {
  kind: 'file' | 'sparse' | 'link' | 'hard link' | 'fifo';
  name: Buffer;
  mode: number;
  /** In seconds. */
  changedAt: number;
  size: number;
  seed: number;
  target: string;
  attribute: Uint8Array | null;
}
export interface RandomFolder {
  name: Buffer;
  mode: number;
  changedAt: number;
  files: RandomFile[];
  folders: RandomFolder[];
}

const ODD = ['\n', '"', "'", '\\', '*', '?', '[', ']', '$', '`', ' ', '-', '\u007f', '\u200b', '\u202e', 'é'];
const word = fc.oneof(
  fc.string({ minLength: 1, maxLength: 60, unit: 'binary' }),
  fc.string({ minLength: 1, maxLength: 20, unit: fc.constantFrom(...ODD, 'a') }),
  fc.string({ minLength: 1, maxLength: 20 }).map((text) => `--${text}`),
  fc.constantFrom('ﬁ', 'ñ', 'n\u0303', 'Å', 'A\u030a', '...', '~', 'CON', 'a:b', '.hidden'),
);
/** What a file may be called: anything without a slash and NUL, but not `.` and `..`. */
const name = fc
  .oneof(
    { weight: 5, arbitrary: word.map((text) => Buffer.from(text)) },
    {
      weight: 2,
      arbitrary: fc.uint8Array({ minLength: 1, maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
    },
    { weight: 1, arbitrary: fc.nat(10_000).map((n) => Buffer.from(`${n}-`.padEnd(250, 'x'))) },
  )
  .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 0 && byte !== 0x2f)).subarray(0, 250))
  .map((bytes) => (/^\.{0,2}$/.test(bytes.toString('latin1')) ? Buffer.from('_') : bytes));
const changedAt = fc.oneof(
  fc.integer({ min: 0, max: 4_000_000_000 }),
  fc.integer({ min: 0, max: 4_000_000 }).map((n) => n + 0.123_456),
);

const file: fc.Arbitrary<RandomFile> = fc.record({
  kind: fc.constantFrom('file', 'file', 'file', 'file', 'sparse', 'link', 'hard link', 'fifo'),
  name,
  mode: fc.integer({ min: 0, max: 0o7777 }),
  changedAt,
  size: fc.oneof(fc.constantFrom(0, 1, 4096, 524_288, 1_048_577), fc.nat(20_000), fc.nat(3_000_000)),
  seed: fc.integer(),
  target: word.map((text) => text.replaceAll('\0', '') || '.'),
  attribute: fc.option(fc.uint8Array({ maxLength: 200 }), { freq: 4 }),
});

const DEPTH = 4;
const folderOf = (depth: number): fc.Arbitrary<RandomFolder> =>
  fc.record({
    name,
    mode: fc.integer({ min: 0, max: 0o7777 }),
    changedAt,
    files: fc.array(file, { maxLength: 12 }),
    folders: depth <= 1 ? fc.constant<RandomFolder[]>([]) : fc.array(folderOf(depth - 1), { maxLength: 3 }),
  });
export const randomTree = folderOf(DEPTH);

const join = (folder: Buffer, name: Buffer) => Buffer.concat([folder, Buffer.from('/'), name]);

/** Of two with one name, the first counts. */
export async function plantTree(
  at: Buffer,
  { files, folders, mode, changedAt }: RandomFolder,
): Promise<void> {
  const taken = new Set<string>();
  const isFree = ({ name }: { name: Buffer }) => {
    const key = name.toString('latin1');
    if (taken.has(key)) return false;
    taken.add(key);
    return true;
  };
  let earlier: Buffer | undefined;
  for (const each of files.filter(isFree)) {
    const where = join(at, each.name);
    await plantFile(where, each, earlier);
    if (each.kind === 'file') earlier = where;
  }
  for (const each of folders.filter(isFree)) {
    const where = join(at, each.name);
    await mkdir(where);
    await plantTree(where, each);
  }
  await chmod(at, mode);
  await utimes(at, changedAt, changedAt);
}

async function plantFile(at: Buffer, wanted: RandomFile, earlier: Buffer | undefined): Promise<void> {
  const { kind, mode, changedAt, size, seed, target, attribute } = wanted;
  if (kind === 'link') {
    await symlink(target, at);
    await lutimes(at, changedAt, changedAt);
    return;
  }
  if (kind === 'hard link' && earlier !== undefined) return link(earlier, at);
  if (kind === 'fifo') {
    // The name goes as bytes, which an argument of Node cannot be.
    execFileSync('python3', [
      '-c',
      'import os,sys; os.mkfifo(bytes.fromhex(sys.argv[1]))',
      at.toString('hex'),
    ]);
  } else {
    const handle = await open(at, 'w');
    if (kind === 'sparse') await handle.write(contentOf(seed, 100), 0, 100, size * 10);
    else await handle.write(contentOf(seed, size));
    await handle.close();
    const text = at.toString();
    if (attribute !== null && Buffer.from(text).equals(at)) {
      setAttribute(text, 'user.x', Buffer.from(attribute));
    }
  }
  await chmod(at, mode);
  await utimes(at, changedAt, changedAt);
}

/** As random as it looks to restic, and the same for the same seed. */
function contentOf(seed: number, size: number): Buffer {
  const pieces: Buffer[] = [];
  for (let n = 0; n * 32 < size; n++) pieces.push(createHash('sha256').update(`${seed} ${n}`).digest());
  return Buffer.concat(pieces).subarray(0, size);
}

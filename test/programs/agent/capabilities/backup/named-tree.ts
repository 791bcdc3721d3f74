import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import {
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  symlink,
  unlink,
} from 'node:fs/promises';
import fc from 'fast-check';
import { pathText } from '../../../../../src/protocol/index.ts';

/** Random trees of files whose names are any bytes, and what really lies in a folder. */

interface Leaf {
  kind: 'file' | 'link' | 'hard link';
  name: Buffer;
  size: number;
}
interface Folder {
  kind: 'folder';
  name: Buffer;
  inner: Node[];
}
type Node = Leaf | Folder;

const latin = (text: string) => Buffer.from(text, 'latin1');

/** Names that are easily taken for each other, or for something else than a name. */
const ALIKE = [
  '\xe9',
  '\xe8',
  '\xc3\xa9',
  '\\xe9',
  '\\x5cxe9',
  '\\xE9',
  '\xef\xbf\xbd',
  '\xff\xfe',
  '\xed\xa0\x80',
  'e\xcc\x81',
  'E',
  'e',
  '[e]',
  '[!e]',
  '?',
  '*',
  '**',
  '\\',
  '\\*',
  '"',
  "'",
  '\n',
  'a: b\nc',
  ' ',
  ' e ',
  'e.',
  '-e',
  '--target=e',
  '$HOME',
  '{e}',
  '#',
  '!e',
  '\x01',
  '\xe2\x80\xae',
  '...',
  'e\xe9',
  'e\xe8',
  'e\\xe9',
].map(latin);

const name: fc.Arbitrary<Buffer> = fc
  .oneof(
    { weight: 4, arbitrary: fc.constantFrom(...ALIKE) },
    {
      weight: 2,
      arbitrary: fc.uint8Array({ minLength: 1, maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
    },
    { weight: 1, arbitrary: fc.nat(99).map((n) => Buffer.from(`${n}-`.padEnd(250, '\u00e9'))) },
  )
  .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 0 && byte !== 0x2f)).subarray(0, 250))
  .map((bytes) => (/^\.{0,2}$/.test(bytes.toString('latin1')) ? latin('_') : bytes));

const leaf: fc.Arbitrary<Node> = fc.record({
  kind: fc.constantFrom('file', 'file', 'file', 'link', 'hard link'),
  name,
  size: fc.oneof(fc.constantFrom(0, 1), fc.nat(5000)),
});
const nodes = (depth: number): fc.Arbitrary<Node[]> =>
  fc.array(
    depth === 0
      ? leaf
      : fc.oneof(
          { weight: 3, arbitrary: leaf },
          { weight: 2, arbitrary: fc.record({ kind: fc.constant('folder'), name, inner: nodes(depth - 1) }) },
        ),
    { minLength: 1, maxLength: 7 },
  );

export interface NamedTree {
  /** The source folder itself. */
  name: Buffer;
  inner: Node[];
  /** How long the path of a file is that lies in many folders; 0: there is none. Beyond 4,095 bytes nobody opens it. */
  deepBytes: number;
  /** Files that are removed, replaced or cut while the backup runs. */
  restless: number;
}
export const namedTree: fc.Arbitrary<NamedTree> = fc.record({
  name: fc.constantFrom('plain', 'caf\xe9', '\\xe9', 'caf[e]*', 'e\n').map(latin),
  inner: nodes(3),
  deepBytes: fc.constantFrom(0, 0, 2120, 3990, 4060, 4090, 4300),
  restless: fc.constantFrom(0, 0, 0, 12),
});

export const below = (folder: Buffer, ...names: Uint8Array[]): Buffer =>
  Buffer.concat([folder, ...names.flatMap((each) => [Buffer.from('/'), each])]);

export async function plant(at: Buffer, tree: NamedTree): Promise<void> {
  await mkdir(at, { recursive: true });
  await plantNodes(at, tree.inner);
  if (tree.deepBytes > 0) await plantDeep(at, tree.deepBytes);
  for (let n = 0; n < tree.restless; n++) await write(below(at, latin(`restless-\xe9-${n}`)), 2000);
}

/** Targets of links are UTF-8: restic before 0.17 keeps others with U+FFFD in them. */
async function plantNodes(at: Buffer, all: readonly Node[], earlier: { file?: Buffer } = {}): Promise<void> {
  for (const node of all) {
    const where = below(at, node.name);
    if ((await lstat(where).catch(() => undefined)) !== undefined) continue;
    if (node.kind === 'folder') {
      await mkdir(where);
      await plantNodes(where, node.inner, earlier);
    } else if (node.kind === 'link') await symlink(`to-é-${node.size}`, where);
    else if (node.kind === 'hard link' && earlier.file !== undefined) await link(earlier.file, where);
    else {
      await write(where, node.size);
      earlier.file = where;
    }
  }
}

async function write(at: Buffer, size: number): Promise<void> {
  const handle = await open(at, 'wx');
  await handle.write(randomBytes(size));
  await handle.close();
}

/** Each folder is opened by its descriptor, because the whole path may be too long for that. */
async function plantDeep(at: Buffer, bytes: number): Promise<void> {
  let folder = await open(at, constants.O_DIRECTORY);
  const inner = (each: Buffer | string) =>
    Buffer.concat([latin(`/proc/self/fd/${folder.fd}/`), Buffer.from(each)]);
  for (let left = bytes - at.length - 2; left > 0; ) {
    // The last name is of the file, and one that is too short to be followed by another one is made longer.
    const length = left <= 200 ? left : left < 210 ? 100 : 200;
    const each = 'd'.repeat(length);
    left -= length + 1;
    if (left <= 0) {
      const file = await open(inner(each), 'wx');
      await file.write('deep');
      await file.close();
    } else {
      await mkdir(inner(each));
      const next = await open(inner(each), constants.O_DIRECTORY);
      await folder.close();
      folder = next;
    }
  }
  await folder.close();
}

/** Changes the restless files until it is told to stop. */
export async function disturb(at: Buffer, { restless }: NamedTree, signal: AbortSignal): Promise<void> {
  for (let n = 0; n < restless && !signal.aborted; n++) {
    const file = below(at, latin(`restless-\xe9-${n}`));
    if (n % 3 === 0) await unlink(file).catch(() => {});
    else if (n % 3 === 1) await rename(file, below(at, latin(`moved-${n}`))).catch(() => {});
    else await write(below(at, latin(`new-\xff-${n}`)), 10).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export interface Present {
  kind: 'folder' | 'file' | 'link' | 'other';
  size: number;
  content: string;
}

/** By the text of the path below the folder: `/inner/file`. Paths may be longer than those that can be opened. */
export async function present(folder: Buffer): Promise<Map<string, Present>> {
  const found = new Map<string, Present>();
  if ((await lstat(folder).catch(() => undefined)) !== undefined) await lookInto(folder, '', found);
  return found;
}

async function lookInto(folder: Buffer, within: string, found: Map<string, Present>): Promise<void> {
  const opened = await open(folder, constants.O_DIRECTORY);
  const here = Buffer.from(`/proc/self/fd/${opened.fd}`);
  try {
    for (const name of await readdir(here, { encoding: 'buffer' })) {
      const path = `${within}/${pathText(name)}`;
      const at = below(here, name);
      const stats = await lstat(at);
      const [size, whole] = [stats.isFile() ? stats.size : 0, { size: 0, content: '' }];
      if (stats.isDirectory()) {
        found.set(path, { kind: 'folder', ...whole });
        await lookInto(at, path, found);
      } else if (stats.isSymbolicLink()) {
        found.set(path, { kind: 'link', size, content: await readlink(at) });
      } else if (stats.isFile()) {
        const content = createHash('sha256')
          .update(await readFile(at))
          .digest('hex');
        found.set(path, { kind: 'file', size, content });
      } else found.set(path, { kind: 'other', ...whole });
    }
  } finally {
    await opened.close();
  }
}

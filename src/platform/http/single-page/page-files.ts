import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** One file of a built page, with its compressed forms where they are worth it. */
export interface PageFile {
  /** Of the content; the forms of one file differ by the name of their encoding. */
  hash: string;
  plain: Buffer;
  br?: Buffer;
  gzip?: Buffer;
}

/**
 * The files of a built page by the path that a browser asks for, such as `/assets/main-Ab12.js`. They are few and small,
 * so they are kept in memory: a request names an entry of this map, and never a file of the machine.
 */
export type PageFiles = ReadonlyMap<string, PageFile>;

export const PAGE = '/index.html';

const COMPRESSED = [
  ['.br', 'br'],
  ['.gz', 'gzip'],
] as const;
/** What gains nothing: images and fonts are compressed already. */
const COMPRESSIBLE = /\.(css|html|js|json|map|svg|txt|webmanifest|xml)$/;
/** Below this, a compressed form saves no packet. */
const WORTH_IT = 1024;

/** Reads a built page. `undefined` where the folder holds none. Names with a dot at the beginning are left out. */
export async function readPageFiles(folder: string): Promise<PageFiles | undefined> {
  const contents = new Map<string, Buffer>();
  for (const file of await filesBelow(folder)) contents.set(file, await readFile(path.join(folder, file)));
  const files = new Map<string, PageFile>();
  for (const [name, plain] of contents) {
    if (isCompressedForm(name, contents)) continue;
    const file: PageFile = { hash: createHash('sha256').update(plain).digest('base64url'), plain };
    for (const [ending, encoding] of COMPRESSED) {
      const compressed = contents.get(name + ending);
      if (compressed !== undefined) file[encoding] = compressed;
    }
    files.set(`/${name}`, file);
  }
  return files.has(PAGE) ? files : undefined;
}

const isCompressedForm = (name: string, all: ReadonlyMap<string, Buffer>) =>
  COMPRESSED.some(([ending]) => name.endsWith(ending) && all.has(name.slice(0, -ending.length)));

/** Writes the compressed forms beside the files of a built page. */
export async function compressPageFiles(folder: string): Promise<void> {
  const names = (await filesBelow(folder)).filter((name) => COMPRESSIBLE.test(name));
  await Promise.all(
    names.map(async (name) => {
      const plain = await readFile(path.join(folder, name));
      if (plain.length < WORTH_IT) return;
      const size = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
      const [br, gz] = await Promise.all([
        promisify(brotliCompress)(plain, {
          params: { ...size, [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
        }),
        promisify(gzip)(plain, { level: 9 }),
      ]);
      await writeFile(path.join(folder, `${name}.br`), br);
      await writeFile(path.join(folder, `${name}.gz`), gz);
    }),
  );
}

/** The highest one takes five times as long for two per cent. */
const BROTLI_QUALITY = 9;

/** With forward slashes. */
async function filesBelow(folder: string): Promise<string[]> {
  let entries;
  try {
    entries = await readdir(folder, { recursive: true, withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .filter((name) => !name.split('/').some((part) => part.startsWith('.')))
    .sort();
}

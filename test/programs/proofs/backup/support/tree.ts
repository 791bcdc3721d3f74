import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, type BigIntStats } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';

/** What a folder holds, exactly: names as bytes, contents, kinds, links, rights, owners, times, extended attributes. */

export interface TreeEntry {
  kind: string;
  mode: string;
  owner: string;
  mtimeNs: string;
  size?: number;
  sha256?: string;
  link?: string;
  /** The first name of the same file. */
  sameAs?: string;
  attributes?: Record<string, string>;
}
export type Tree = Record<string, TreeEntry>;

const LATIN = 'latin1';

/** By path below the folder, in Latin-1, which has a character for each byte. `.` is the folder itself. */
export async function describeTree(folder: string): Promise<Tree> {
  const tree: Tree = {};
  const first = new Map<string, string>();
  const attributes = attributesIn(folder);
  const visit = async (at: Buffer, name: string): Promise<void> => {
    const stats = await lstat(at, { bigint: true });
    const entry = await describeEntry(at, stats);
    const own = attributes[name];
    if (own !== undefined) entry.attributes = own;
    if (!stats.isDirectory() && stats.nlink > 1n) {
      const file = `${stats.dev}:${stats.ino}`;
      const known = first.get(file);
      if (known === undefined) first.set(file, name);
      else entry.sameAs = known;
    }
    tree[name] = entry;
    if (!stats.isDirectory()) return;
    const names = (await readdir(at, { encoding: 'buffer' })).sort(Buffer.compare);
    for (const each of names) {
      const inner = Buffer.concat([at, Buffer.from('/'), each]);
      await visit(inner, name === '.' ? each.toString(LATIN) : `${name}/${each.toString(LATIN)}`);
    }
  };
  await visit(Buffer.from(folder), '.');
  return tree;
}

async function describeEntry(at: Buffer, stats: BigIntStats): Promise<TreeEntry> {
  const common = {
    mode: (stats.mode & 0o7777n).toString(8),
    owner: `${stats.uid}:${stats.gid}`,
    mtimeNs: String(stats.mtimeNs),
  };
  if (stats.isDirectory()) return { kind: 'folder', ...common };
  if (stats.isSymbolicLink()) {
    // The mode of a link means nothing on Linux.
    const link = (await readlink(at, { encoding: 'buffer' })).toString(LATIN);
    return { kind: 'link', ...common, link };
  }
  if (!stats.isFile()) return { kind: stats.isFIFO() ? 'fifo' : 'other', ...common };
  const hash = createHash('sha256');
  for await (const piece of createReadStream(at)) hash.update(piece as Buffer);
  return { kind: 'file', ...common, size: Number(stats.size), sha256: hash.digest('hex') };
}

const READ_ATTRIBUTES = `
import json, os, sys
root = os.fsencode(sys.argv[1]); found = {}
def read(path, name):
    try:
        names = os.listxattr(path, follow_symlinks=False)
        own = {n: os.getxattr(path, n, follow_symlinks=False).hex() for n in names}
    except OSError:
        own = {}
    if own: found[name.decode('latin-1')] = own
def visit(path, name):
    read(path, name)
    if os.path.isdir(path) and not os.path.islink(path):
        for each in os.listdir(path):
            visit(path + b'/' + each, each if name == b'.' else name + b'/' + each)
visit(root, b'.')
json.dump(found, sys.stdout)
`;

/** Node does not read them, so Python does, where there is one. */
function attributesIn(folder: string): Record<string, Record<string, string>> {
  try {
    const text = execFileSync('python3', ['-c', READ_ATTRIBUTES, folder], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 2 ** 28,
    });
    return JSON.parse(text) as Record<string, Record<string, string>>;
  } catch {
    return {};
  }
}

const SET_ATTRIBUTE = `
import os, sys
os.setxattr(os.fsencode(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3]))
`;

/** Answers whether this machine and this file system can. */
export function setAttribute(file: string, name: string, value: Buffer): boolean {
  try {
    const words = ['-c', SET_ATTRIBUTE, file, name, value.toString('hex')];
    execFileSync('python3', words, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

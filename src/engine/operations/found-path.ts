import type { Stats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { pathBytes, pathText, printedPath } from '../../protocol/index.ts';
import type { ReadNames } from '../output/exact-names.ts';

/** Paths on the disk of this machine, as `pathText` writes them. */

const UNKNOWN = '\ufffd';

/** Below a folder, in bytes. Names of Windows are characters. */
export function pathBelow(folder: string, path: string): Buffer {
  if (process.platform === 'win32') return Buffer.from(`${folder}${path}`);
  return Buffer.concat([Buffer.from(folder), pathBytes(path)]);
}

/**
 * The path that restic means where it prints U+FFFD for each byte that is not UTF-8: the only one that looks like it. As it
 * was printed where there is none, or more than one.
 */
export async function exactPath(printed: string, readNames: ReadNames): Promise<string> {
  if (!printed.includes(UNKNOWN)) return printed;
  let found = '';
  for (const name of printed.split('/').filter((each) => each !== '')) {
    const exact = name.includes(UNKNOWN) ? onlyOneLike(name, await readNames(found)) : name;
    if (exact === undefined) return printed;
    found += `/${exact}`;
  }
  return found;
}

function onlyOneLike(printed: string, names: readonly string[]): string | undefined {
  const wanted = printedPath(printed);
  const alike = names.filter((each) => printedPath(each) === wanted);
  return alike.length === 1 ? alike[0] : undefined;
}

/** The same on the disk of this machine, below a folder of it. */
export const foundPath = (folder: string, printed: string): Promise<string> =>
  process.platform === 'win32'
    ? Promise.resolve(printed)
    : exactPath(printed, async (within) => {
        const at = pathBelow(folder, within);
        const names = await readdir(at.length === 0 ? '/' : at, { encoding: 'buffer' }).catch(() => []);
        return names.map((each) => pathText(each));
      });

/**
 * What really lies below a folder: no part of the way is a link, or leads up. `undefined` otherwise, and where nothing is
 * there. What restic prints follows from names that an attacker may have chosen.
 */
export async function plainBelow(folder: string, path: string): Promise<Stats | undefined> {
  const names = path.split('/').slice(1);
  const isPlain = names.every((name) => name !== '' && name !== '.' && name !== '..');
  if (!path.startsWith('/') || !isPlain) return undefined;
  let found: Stats | undefined;
  for (const n of names.keys()) {
    if (n > 0 && found?.isDirectory() !== true) return undefined;
    const at = pathBelow(folder, `/${names.slice(0, n + 1).join('/')}`);
    found = await lstat(at).catch(() => undefined);
  }
  return found;
}

/** `unknown`: this user may not look there. */
export async function whetherThere(at: Buffer): Promise<'there' | 'too_long' | 'missing' | 'unknown'> {
  try {
    await lstat(at);
    return 'there';
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENAMETOOLONG') return 'too_long';
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'missing' : 'unknown';
  }
}

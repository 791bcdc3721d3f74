import { lstat, readdir } from 'node:fs/promises';
import { pathBytes, pathText, printedPath } from '../../protocol/index.ts';

/** Paths on the disk of this machine, as `pathText` writes them. */

const UNKNOWN = '\ufffd';

/** Below a folder, in bytes. Names of Windows are characters. */
export function pathBelow(folder: string, path: string): Buffer {
  if (process.platform === 'win32') return Buffer.from(`${folder}${path}`);
  return Buffer.concat([Buffer.from(folder), pathBytes(path)]);
}

/**
 * The path that restic means where it prints U+FFFD for a byte that is not UTF-8: the only one on the disk that looks like
 * it. As it was printed where there is none, or more than one.
 */
export async function foundPath(folder: string, printed: string): Promise<string> {
  if (!printed.includes(UNKNOWN) || process.platform === 'win32') return printed;
  let found = '';
  for (const name of printed.split('/').slice(1)) {
    const exact = name.includes(UNKNOWN) ? await onlyOneLike(name, pathBelow(folder, found)) : name;
    if (exact === undefined) return printed;
    found += `/${exact}`;
  }
  return found;
}

async function onlyOneLike(printed: string, folder: Buffer): Promise<string | undefined> {
  const names = await readdir(folder.length === 0 ? '/' : folder, { encoding: 'buffer' }).catch(() => []);
  const wanted = printedPath(printed);
  const alike = names.map((each) => pathText(each)).filter((each) => printedPath(each) === wanted);
  return alike.length === 1 ? alike[0] : undefined;
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

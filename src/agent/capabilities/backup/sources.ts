import { lstat, opendir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { osType } from '../../os/machine/os-type.ts';
import { nameBytes, nameText } from '../../os/files/path-bytes.ts';
import { readMounts } from '../../os/files/mounts.ts';
import { type ChosenSources, chooseSources } from './virtual-file-systems.ts';

/** The sources of a backup as they are on this machine. Paths are as `pathText` writes them. */

/** A share that does not answer would keep a call waiting for as long as it is away. */
const PATIENCE_MS = 5000;

/** What of the sources is backed up: on Linux without virtual file systems. */
export async function presentSources(paths: readonly string[]): Promise<ChosenSources> {
  if (osType() !== 'linux') {
    return { paths: [...paths], patterns: [], firstPatterns: [], leftOut: [], refused: [] };
  }
  const mounts = await readMounts().catch(() => []);
  const sources = await Promise.all(
    paths.map(async (each) => {
      const plain = path.posix.resolve(each);
      const folder = await within(realFolder(path.posix.dirname(plain)), path.posix.dirname(plain));
      return { path: plain, real: path.posix.join(folder, path.posix.basename(plain)) };
    }),
  );
  return chooseSources(sources, mounts);
}

const realFolder = async (folder: string) =>
  nameText(await realpath(nameBytes(folder), { encoding: 'buffer' }));

/** So many folders are looked into; a source with more of them is taken to have files. */
const FOLDERS_MAX = 1000;

/** The sources that are there and have no file, as the folder of a disk that is not mounted. Call it after the backup. */
export async function sourcesWithoutFiles(paths: readonly string[]): Promise<string[]> {
  const empty = await Promise.all(paths.map((each) => within(holdsNothing(each), false)));
  return paths.filter((_each, n) => empty[n] === true);
}

/** A link is not followed, so a source that is one has no files either. */
async function holdsNothing(source: string): Promise<boolean> {
  const root = nameBytes(source);
  const found = await lstat(root);
  if (!found.isDirectory()) return found.isSymbolicLink();
  const folders = [root];
  for (let n = 0; n < folders.length; n += 1) {
    if (n >= FOLDERS_MAX) return false;
    const folder = folders[n] ?? root;
    // Latin-1 has a character for each byte of a name.
    for await (const entry of await opendir(folder, { encoding: 'latin1' })) {
      if (!entry.isDirectory()) return false;
      const name = Buffer.from(path.sep + entry.name, 'latin1');
      if (folders.length <= FOLDERS_MAX) folders.push(Buffer.concat([folder, name]));
    }
  }
  return true;
}

/** What is found out in time; `otherwise` where it is not, or where it fails. */
const within = <T>(work: Promise<T>, otherwise: T): Promise<T> =>
  Promise.race([
    work.catch(() => otherwise),
    clock.sleep(PATIENCE_MS, { unref: true }).then(() => otherwise),
  ]);

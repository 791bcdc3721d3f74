import type { Dirent } from 'node:fs';
import { readdir, rm, rmdir, unlink } from 'node:fs/promises';
import path from 'node:path';
import { hasCode } from '../../os/files/private-file.ts';
import { OWN_NAMES, type OwnNames } from './own-files.ts';

/** A file that was being written when its process was killed. */
const DRAFT = /\.[0-9a-f]{16}\.draft$/;

/**
 * Removes the agent's files, and each folder that is empty then, the agent's own at last.
 * @returns the paths that stay, because they are not the agent's
 */
export async function removeData(dataDir: string): Promise<string[]> {
  return removeOwn(dataDir, OWN_NAMES);
}

async function removeOwn(folder: string, own: OwnNames): Promise<string[]> {
  const kept: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const place = path.join(folder, entry.name);
    const content = contentOf(entry, own);
    if (content === undefined) kept.push(place);
    else if (content === 'file') await unlink(place);
    else if (content === 'everything') await rm(place, { recursive: true, force: true });
    else kept.push(...(await removeOwn(place, content)));
  }
  // A file that came meanwhile keeps the folder.
  if (kept.length === 0) {
    await rmdir(folder).catch((error: unknown) => {
      if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST')) throw error;
    });
  }
  return kept;
}

/** What the agent keeps under this name; `undefined` where it keeps nothing. A link to a folder is not a folder. Pure. */
function contentOf(
  entry: Dirent,
  { files, folders }: OwnNames,
): OwnNames | 'everything' | 'file' | undefined {
  if (entry.isDirectory()) return folders?.find(([name]) => name.test(entry.name))?.[1];
  return entry.isFile() && files?.test(entry.name.replace(DRAFT, '')) === true ? 'file' : undefined;
}

import path from 'node:path';
import { EngineError } from '../../../../engine/index.ts';
import { OpenFolder } from '../../../os/files/open-folder.ts';
import { targetError } from '../../../repository/backup-error.ts';
import { canonicalPath } from '../../../../protocol/index.ts';
import { nameBytes } from '../../../os/files/path-bytes.ts';
import type { RestoreSource } from './restore-source.ts';

/** The file or folder of a snapshot that comes to a target itself. */
export interface ChosenEntry {
  /** The names of its path, as `pathText` writes them. */
  names: string[];
  name: string;
  isFolder: boolean;
}

/** Throws where the snapshot does not have it, and where a file would have to change its name. */
export async function findEntry(
  source: Pick<RestoreSource, 'select'>,
  { from, target }: { from: string; target: string },
): Promise<ChosenEntry> {
  const names = canonicalPath(from)
    .split('/')
    .filter((name) => name !== '');
  const wanted = `/${names.join('/')}`;
  let type: string | undefined;
  await source.select([wanted], (entry) => {
    if (entry.path === wanted) ({ type } = entry);
  });
  const name = names.at(-1);
  if (type === undefined || name === undefined) throw new EngineError('PATH_MISSING');
  const isFolder = type === 'dir';
  if (!isFolder && path.basename(target) !== name) {
    throw targetError('TARGET_UNSAFE', 'A file keeps its name when it is restored to a place of its own.');
  }
  return { names, name, isFolder };
}

/** The folder, of what was fetched, whose content is placed. No part of the way there may be a link. */
export async function openStaged(staged: string, entry: ChosenEntry | undefined): Promise<OpenFolder> {
  let folder = await OpenFolder.open(staged);
  if (entry === undefined) return folder;
  for (const name of entry.isFolder ? entry.names : entry.names.slice(0, -1)) {
    let next: OpenFolder;
    try {
      next = await folder.folder(nameBytes(name));
    } finally {
      await folder.close();
    }
    folder = next;
  }
  return folder;
}

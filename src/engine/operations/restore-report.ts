import { lstat, unlink } from 'node:fs/promises';
import { PATH_TEXT_MAX, printedPath } from '../../protocol/index.ts';
import { parseNotRestored, type UnreadablePath } from '../output/backup-output.ts';
import { PathList } from '../output/path-list.ts';
import { foundPath, pathBelow, whetherThere } from './found-path.ts';
import type { FolderSize } from './restore-target.ts';

/** What a restore has not restored: by what restic says, and by what lies on the disk. */

export interface Restored {
  target: string;
  found: FolderSize & { isWhole: boolean };
  expected: FolderSize | undefined;
  selected: readonly string[];
  listExpected: (() => AsyncIterable<string>) | undefined;
}

/** Names what should be there and is not, whatever restic has said. */
export async function addMissing(
  failed: PathList,
  { target, found, expected, selected, listExpected }: Restored,
): Promise<void> {
  const nameMissing = async (path: string) => {
    const state = await whetherThere(pathBelow(target, path));
    const reason = WHY_MISSING[state];
    if (reason !== undefined) failed.add({ path, reason });
    return reason !== undefined;
  };
  for (const path of selected) await nameMissing(path);
  let missing = (expected?.files ?? 0) - found.files;
  if (missing <= 0 || !found.isWhole) return;
  for await (const path of listExpected?.() ?? []) if (await nameMissing(path)) missing -= 1;
  if (missing <= 0 && !failed.isEmpty) return;
  if (missing > 0 && listExpected !== undefined) {
    failed.add({ path: '', reason: `${missing} files have names that are the same on this disk` });
  } else if (failed.isEmpty) failed.add({ path: '', reason: `${missing} files are missing` });
}

const WHY_MISSING: Partial<Record<Awaited<ReturnType<typeof whetherThere>>, string>> = {
  missing: 'restic has not restored it',
  too_long: 'its path is too long for this machine',
};

const NAMED_MAX = 100_000;
const IS_FILE = /^(ignoring error for |\{"message_type":"error")/;
const IS_FULL = /no space left on device|not enough space|quota exceeded/i;
/** It has gone through the whole snapshot. Without this line, something else has ended it. */
const HAS_ENDED = /There were \d+ errors/;
/** What the file contains is whole then. */
const IS_METADATA = /\b(l?chown|l?chmod|l?utimes\w*|l?xattr|attributes?|acl|security descriptor)\b/i;

/** Reads what restic says about single files. */
export class RestoreObserver {
  readonly #lines: string[] = [];
  #open = '';
  #hasEnded = false;
  isTargetFull = false;

  get isFinished(): boolean {
    return this.#hasEnded;
  }

  readError(line: string): boolean {
    const isFile = IS_FILE.test(line);
    this.isTargetFull ||= (isFile || this.#open !== '') && IS_FULL.test(line);
    this.#hasEnded ||= HAS_ENDED.test(line);
    // A name with line breaks takes several lines.
    const text = isFile || this.#open === '' ? line : `${this.#open}\n${line}`;
    const isWhole = parseNotRestored(text) !== undefined;
    this.#open = isWhole || !IS_FILE.test(text) ? '' : text.slice(0, PATH_TEXT_MAX);
    if (isWhole && this.#lines.length < NAMED_MAX) this.#lines.push(text);
    return isWhole || this.#open !== '';
  }

  /** The paths that it has named. Files of which a part is missing are removed. */
  async failed(target: string): Promise<PathList> {
    const failed = new PathList();
    for (const line of this.#lines) {
      const { path, reason } = await namedPath(target, line);
      failed.add({ path, reason });
      if (IS_METADATA.test(reason.replaceAll(printedPath(path), ''))) continue;
      const at = pathBelow(target, path);
      const found = await lstat(at).catch(() => undefined);
      if (found?.isFile() === true) await unlink(at);
    }
    return failed;
  }
}

/** The path that a line names. In text it ends with a colon, which can also be in it: the longest one that is there. */
async function namedPath(target: string, line: string): Promise<UnreadablePath> {
  const named = parseNotRestored(line) ?? { path: '', reason: line };
  if (line.startsWith('{')) return { ...named, path: await foundPath(target, named.path) };
  const text = `${named.path}: ${named.reason}`;
  for (let at = text.lastIndexOf(': '); at > named.path.length; at = text.lastIndexOf(': ', at - 1)) {
    const path = text.slice(0, at);
    if ((await whetherThere(pathBelow(target, path))) === 'there')
      return { path, reason: text.slice(at + 2) };
  }
  return named;
}

import { lstat, unlink } from 'node:fs/promises';
import { PATH_TEXT_MAX, pathText } from '../../protocol/index.ts';
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
/** A path and twice as much for the reason, which holds it with that of the target. */
const LINE_MAX = 3 * PATH_TEXT_MAX;
const IS_FILE = /^(ignoring error for |\{"message_type":"error")/;
/** What restic says of itself beside that. */
const IS_OTHER = /^(\{|Fatal: |restoring |Load\()|returned error, retrying after|^\s*$/;
const IS_FULL = /no space left on device|not enough space|quota exceeded/i;
/** It has gone through the whole snapshot. Without this line, something else has ended it. */
const HAS_ENDED = /There were \d+ errors/;
/** What the file contains is whole then. */
const IS_METADATA = /\b(l?chown|l?chmod|l?utimes\w*|l?xattr|attributes?|acl|security descriptor)\b/i;

/** Reads what restic says about single files. */
export class RestoreObserver {
  readonly #lines: string[] = [];
  /** Whether the next line can belong to the last one. */
  #isOpen = false;
  #hasEnded = false;
  isTargetFull = false;

  get isFinished(): boolean {
    return this.#hasEnded;
  }

  readError(line: string): boolean {
    const isFile = IS_FILE.test(line);
    // A name with line breaks takes several lines.
    const isMore = this.#isOpen && !isFile && !IS_OTHER.test(line);
    this.isTargetFull ||= (isFile || isMore) && IS_FULL.test(line);
    this.#hasEnded ||= HAS_ENDED.test(line);
    if (isMore) this.#lines.push(`${this.#lines.pop() ?? ''}\n${line}`.slice(0, LINE_MAX));
    else if (isFile && this.#lines.length < NAMED_MAX) this.#lines.push(line);
    this.#isOpen = isMore || (isFile && !line.startsWith('{'));
    return isFile || isMore;
  }

  /** The paths that it has named. Files of which a part is missing are removed. */
  async failed(target: string): Promise<PathList> {
    const failed = new PathList();
    const torn = new Set<string>();
    for (const line of this.#lines) {
      const { path, reason: said } = await namedPath(target, line);
      // The folder in between is ours, and what is said about the path stands behind it.
      const reason = said.replaceAll(` ${nativeText(pathBelow(target, path))}`, '');
      failed.add({ path, reason });
      if (!IS_METADATA.test(reason)) torn.add(path);
    }
    for (const path of torn) {
      const at = pathBelow(target, path);
      const found = await lstat(at).catch(() => undefined);
      if (found?.isFile() === true) await unlink(at);
    }
    return failed;
  }
}

const nativeText = (path: Buffer): string =>
  process.platform === 'win32' ? path.toString('utf8') : pathText(path);

/** The path that a line names. In text it ends with a colon, which can also be in it: the longest one that is there. */
async function namedPath(target: string, line: string): Promise<UnreadablePath> {
  const named = parseNotRestored(line) ?? { path: '', reason: line };
  if (line.startsWith('{')) return { ...named, path: await foundPath(target, named.path) };
  const text = `${named.path}: ${named.reason}`;
  for (let at = text.lastIndexOf(': '); at > named.path.length; at = text.lastIndexOf(': ', at - 1)) {
    const path = text.slice(0, at);
    const isThere = (await whetherThere(pathBelow(target, path))) === 'there';
    if (isThere) return { path, reason: text.slice(at + 2) };
  }
  return named;
}

import type { Stats } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { PATH_TEXT_MAX, pathText } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import { parseNotRestored, type UnreadablePath } from '../output/backup-output.ts';
import { PathList } from '../output/path-list.ts';
import { foundPath, pathBelow, plainBelow, whetherThere } from './found-path.ts';
import { filesIn, type FolderSize } from './restore-target.ts';

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
/** More files of which a part is missing than these are not looked after one by one. */
const TORN_MAX = 1_000_000;
/** A path and twice as much for the reason, which holds it with that of the target. */
const LINE_MAX = 3 * PATH_TEXT_MAX;
const IS_FILE = /^(ignoring error for |\{"message_type":"error")/;
/** What restic says of itself beside that. */
const IS_OTHER = /^(\{|Fatal: |restoring |Load\()|returned error, retrying after|^\s*$/;
const IS_FULL = /no space left on device|not enough space|quota exceeded/i;
/** It has gone through the whole snapshot. Without this line, something else has ended it. */
const HAS_ENDED = /There were \d+ errors/;
/** What the file contains is whole then. */
const IS_METADATA =
  /\b(l?chown|l?chmod|l?utimes\w*|\w*xattr|attributes?|acl|security descriptor|operation not (permitted|supported))\b/i;

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
    const isKept = isFile && this.#lines.length < (IS_METADATA.test(line) ? NAMED_MAX : TORN_MAX);
    if (isKept) this.#lines.push(line);
    this.#isOpen = isMore || (isKept && !line.startsWith('{'));
    return isFile || isMore;
  }

  /**
   * The paths that it has named. Files of which a part is missing are removed.
   * @param listExpected  the paths of all files, asked where a line can name several that are not there
   */
  async failed(target: string, listExpected: Restored['listExpected']): Promise<PathList> {
    const failed = new PathList();
    const torn = new Set<string>();
    if (this.#lines.length >= TORN_MAX) throw new EngineError('REPOSITORY_DAMAGED');
    const named: NamedPath[] = [];
    for (const line of this.#lines) named.push(await namedPath(target, line));
    await settleByList(named, listExpected);
    for (const { path, reason: said } of named) {
      // The folder in between is ours, and what is said about the path stands behind it.
      const reason = said.replaceAll(` ${nativeText(pathBelow(target, path))}`, '');
      failed.add({ path, reason });
      if (!IS_METADATA.test(reason)) torn.add(path);
    }
    await removeTorn(target, torn, failed);
    return failed;
  }
}

/** With their other names, of which restic makes links to the first one whatever has become of it. */
async function removeTorn(target: string, torn: ReadonlySet<string>, failed: PathList): Promise<void> {
  const named = new Set<string>();
  for (const path of torn) {
    const found = await plainBelow(target, path);
    if (found?.isFile() !== true) continue;
    if (found.nlink > 1) named.add(fileId(found));
    await unlink(pathBelow(target, path));
  }
  if (named.size === 0) return;
  for await (const path of filesIn(target)) {
    const found = await plainBelow(target, path);
    if (found === undefined || !named.has(fileId(found))) continue;
    failed.add({ path, reason: 'a part of the file is missing' });
    await unlink(pathBelow(target, path));
  }
}

const fileId = ({ dev, ino }: Stats) => `${dev} ${ino}`;

const nativeText = (path: Buffer): string =>
  process.platform === 'win32' ? path.toString('utf8') : pathText(path);

interface NamedPath extends UnreadablePath {
  /** Longer paths that the line could name as well, where neither it nor any of them is on the disk. */
  others?: UnreadablePath[];
}

/** The path that a line names. In text it ends with a colon, which can also be in it: the longest one that is there. */
async function namedPath(target: string, line: string): Promise<NamedPath> {
  const named = parseNotRestored(line) ?? { path: '', reason: line };
  if (line.startsWith('{')) return { ...named, path: await foundPath(target, named.path) };
  const text = `${named.path}: ${named.reason}`;
  const others: UnreadablePath[] = [];
  for (let at = text.lastIndexOf(': '); at > named.path.length; at = text.lastIndexOf(': ', at - 1)) {
    const longer = { path: text.slice(0, at), reason: text.slice(at + 2) };
    if ((await plainBelow(target, longer.path)) !== undefined) return longer;
    others.push(longer);
  }
  return (await plainBelow(target, named.path)) === undefined ? { ...named, others } : named;
}

/** restic may give up before it creates a file. Then only the list of the snapshot tells which path a line names. */
async function settleByList(
  named: readonly NamedPath[],
  listExpected: Restored['listExpected'],
): Promise<void> {
  const wanted = new Map<string, { line: NamedPath; other: UnreadablePath }[]>();
  for (const line of named) {
    for (const other of line.others ?? []) {
      const known = wanted.get(other.path);
      if (known === undefined) wanted.set(other.path, [{ line, other }]);
      else known.push({ line, other });
    }
  }
  if (wanted.size === 0 || listExpected === undefined) return;
  for await (const path of listExpected()) {
    for (const { line, other } of wanted.get(path) ?? []) {
      if (path.length > line.path.length) Object.assign(line, other);
    }
  }
}

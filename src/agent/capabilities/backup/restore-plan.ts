import {
  type EngineEntry,
  EngineError,
  listEntries,
  PathList,
  type PathReport,
  type ReadNames,
  SelectedPaths,
  type EngineProgress,
  restore,
} from '../../../engine/index.ts';
import type { RepositoryWork } from '../../repository/repository-work.ts';
import type { Amount } from '../../repository/target-folder.ts';
import type { BigIntStats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { type CommandPayload, type CommandOutput, NAMED_PATHS_MAX } from '../../../protocol/index.ts';
import { nameText, type EntryName, type OpenFolder, nameBytes } from '../../os/files/open-folder.ts';
import { hasCode } from '../../os/files/private-file.ts';
import { isWriteRefused } from '../../repository/local-engine.ts';

/** Where the files of a restore come from. The rest of a restore is the same for every source. */
export interface RestoreSource {
  /** Lists what will be written. Throws PATH_MISSING if none of the paths exists. */
  select(selected: Selected, onEntry?: OnEntry): Promise<Selection>;
  /** Whether an interrupted `fetch` can resume from the files that it has left. */
  continues: boolean;
  /** Whether `fetch` opens files by their full path below the folder, whose length systems limit. */
  isPathLimited: boolean;
  /**
   * Writes into a private folder, each file below its full path. Returns the files and bytes written, and the
   * paths that failed.
   */
  fetch(
    folder: string,
    order: { selected: Selected; expected: Amount },
    onProgress: (progress: EngineProgress) => void,
  ): Promise<Amount & { failed: PathReport }>;
}

/** The files of a snapshot, which restic restores. */
export const snapshotSource = (snapshot: ListedSnapshot): RestoreSource => ({
  continues: snapshot.engine.program.capabilities.restoreContinues,
  isPathLimited: true,
  select: (selected, onEntry) => readSelection(snapshot, selected, onEntry),
  fetch: (target, { selected, expected }, onProgress) =>
    restore(
      snapshot.engine,
      snapshot.repository,
      {
        snapshotId: snapshot.snapshotId,
        target,
        expected,
        ...(selected === undefined ? {} : { selected: [...selected] }),
      },
      { ...snapshot.options, onProgress, listExpected: () => selectedFiles(snapshot, selected) },
    ),
});

/** Absent: the whole snapshot. */
type Selected = readonly string[] | undefined;

/** An entry of the snapshot that will be restored. */
export interface Entry {
  /** As `pathText` writes it. */
  path: string;
  type: string;
  size?: number | undefined;
  mtime?: string | undefined;
  /** Why the entry, with everything in it, cannot be restored. */
  leftOut?: string | undefined;
}
type OnEntry = (entry: Entry) => void | Promise<void>;

interface Selection extends Amount {
  /** Selected paths that the snapshot does not contain. */
  missing: string[];
  /** Selected paths that cannot be restored. */
  leftOut: PathReport;
}

/** The listing of a snapshot: by restic, and by our own reader for names that restic cannot print. */
interface ListedSnapshot extends RepositoryWork {
  snapshotId: string;
  readNames: ReadNames;
}

/**
 * Lists what a restore will write, before it begins. `onEntry` gets each restored entry and each folder above
 * one. Throws REPOSITORY_DAMAGED if a folder contains a name twice: restic never writes such a folder, but an
 * attacker who knows the password can, and restic would then follow a replaced link.
 * A file with several names counts each time, so the size may be more than what is written.
 */
export const readSelection = (
  snapshot: ListedSnapshot,
  selected: Selected,
  onEntry?: OnEntry,
): Promise<Selection> => selectFrom(() => listed(snapshot), selected, onEntry);

/** The paths of all files that a restore writes. */
async function* selectedFiles(snapshot: ListedSnapshot, selected: Selected): AsyncGenerator<string, void> {
  const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
  for await (const { path, type } of listed(snapshot)) {
    if (type !== 'dir' && type !== 'socket' && wanted?.has(path) !== false) yield path;
  }
}

/** @param list  the whole snapshot, or only the entries that are selected or lie above a selected one */
export async function selectFrom(
  list: (wanted: SelectedPaths | undefined) => AsyncIterable<Entry>,
  selected: Selected,
  onEntry: OnEntry = () => {},
): Promise<Selection> {
  const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
  const amount = { files: 0, bytes: 0 };
  const leftOut = new PathList();
  for await (const entry of list(wanted)) {
    const isSelected = wanted?.has(entry.path) ?? true;
    if (!isSelected && wanted?.isAbove(entry.path) !== true) continue;
    // A socket is useless without its program. It is reported only if it was selected itself.
    const isSocket = entry.type === 'socket';
    const reason = entry.leftOut ?? (isSocket && wanted?.names(entry.path) === true ? SOCKET : undefined);
    if (reason !== undefined) leftOut.add({ path: entry.path, reason });
    if (reason !== undefined || isSocket) continue;
    await onEntry(entry);
    if (!isSelected || entry.type === 'dir') continue;
    amount.files += 1;
    amount.bytes += entry.size ?? 0;
  }
  const missing = wanted?.missing() ?? [];
  if (wanted !== undefined && missing.length === wanted.size) throw new EngineError('PATH_MISSING');
  return { ...amount, missing, leftOut: leftOut.report() };
}

const SOCKET = 'a socket, which is not restored';

async function* listed(snapshot: ListedSnapshot): AsyncGenerator<Entry, void> {
  const { engine, repository, options, snapshotId, readNames } = snapshot;
  const names = new NameCheck();
  for await (const entry of listEntries(engine, repository, { snapshotId, readNames }, options)) {
    names.check(entry);
    yield entry;
  }
}

/** restic prints the names of a folder in order, each followed by its content. */
class NameCheck {
  /** The last entry of each level of folders. */
  readonly #last: EngineEntry[] = [];

  check(entry: EngineEntry): void {
    const level = entry.path.split('/').length - 2;
    const before = this.#last[level];
    this.#last.length = Math.min(this.#last.length, level);
    this.#last[level] = entry;
    if (before?.path !== entry.path) return;
    throw new EngineError('REPOSITORY_DAMAGED', {
      message: 'A folder of the snapshot contains the same name twice. Nothing was restored.',
      detail: entry.path,
    });
  }
}

type Planned = NonNullable<CommandOutput<'backup.restore'>['planned']>;

const TOO_LONG = 'its path is too long for this machine';
/** The longest path that system calls accept, in bytes without the terminating NUL. */
const PATH_BYTES_MAX: Partial<Record<NodeJS.Platform, number>> = { linux: 4095, darwin: 1023, win32: 32_766 };

/**
 * State of a folder at the target: `new`, and so is everything in it; `present`: each name in it is decided
 * separately; `blocked`: nothing in it is restored.
 */
type FolderState = 'new' | 'present' | 'blocked';

/** Decides what a restore would do with each entry, by the rules of the restore itself. */
export class RestorePlan {
  readonly written: Amount = { files: 0, bytes: 0 };
  readonly skipped: Amount = { files: 0, bytes: 0 };
  readonly failed = new PathList();
  /** Entries that cannot be fetched, because their path is too long for this machine. */
  readonly tooLong = new PathList();
  /** The first files that would be written. */
  readonly planned: Planned = [];
  readonly #target: Buffer | undefined;
  readonly #rule: Overwrite;
  readonly #above: number | undefined;
  /** The folders above the current entry. */
  readonly #folders: FolderState[] = [];

  /**
   * @param target  `undefined` if the target does not exist yet
   * @param above  the path of the folder that is fetched into, in bytes; `undefined` if the length of paths
   * has no limit
   */
  constructor(target: Buffer | undefined, rule: Overwrite, above: number | undefined) {
    this.#target = target;
    this.#rule = rule;
    this.#above = above;
  }

  async add(entry: Entry): Promise<void> {
    const names = entry.path.split('/').slice(1);
    const level = names.length - 1;
    this.#folders.length = Math.min(this.#folders.length, level);
    const parent = this.#folders.at(-1) ?? (this.#target === undefined ? 'new' : 'present');
    if (parent !== 'blocked' && this.#isTooLong(entry.path)) {
      this.tooLong.add({ path: entry.path, reason: TOO_LONG });
      if (entry.type === 'dir') this.#folders.push(parent);
      return;
    }
    const present = parent === 'present' ? await this.#find(names) : undefined;
    if (entry.type === 'dir') this.#folders.push(parent === 'present' ? this.#enter(entry, present) : parent);
    else if (parent !== 'blocked') this.#file(entry, present);
  }

  #enter(entry: Entry, present: Found | undefined): FolderState {
    if (present === undefined) return 'new';
    const decision = decideOverwrite(this.#rule, restored(entry), present);
    if (decision === 'enter') return 'present';
    if (decision === 'replace') return 'new';
    this.#fail(entry, present);
    return 'blocked';
  }

  #file(entry: Entry, present: Found | undefined): void {
    const amount = { files: 1, bytes: entry.size ?? 0 };
    const decision =
      present === undefined ? 'replace' : decideOverwrite(this.#rule, restored(entry), present);
    if (decision === 'keep') return add(this.skipped, amount);
    if (present !== undefined && decision === 'blocked') return this.#fail(entry, present);
    add(this.written, amount);
    if (this.planned.length >= NAMED_PATHS_MAX) return;
    this.planned.push({ path: entry.path, sizeBytes: amount.bytes, replaces: present !== undefined });
  }

  #fail({ path }: Entry, present: Found): void {
    this.failed.add({ path, reason: blockedBy(present.kind === 'folder') });
  }

  #isTooLong(path: string): boolean {
    const max = PATH_BYTES_MAX[process.platform];
    return this.#above !== undefined && max !== undefined && this.#above + nameBytes(path).length > max;
  }

  /** Whether all folders above the entry exist and none of them is a link. */
  async #find(names: readonly string[]): Promise<Found | undefined> {
    try {
      const below = names.flatMap((name) => [Buffer.from(path.sep), nameBytes(name)]);
      return foundOf(await lstat(Buffer.concat([this.#target ?? Buffer.of(), ...below]), { bigint: true }));
    } catch (error) {
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ENAMETOOLONG')) return undefined;
      throw error;
    }
  }
}

function restored({ type, mtime }: Entry): Found {
  const kind = type === 'dir' ? 'folder' : type === 'file' ? 'file' : 'other';
  return { kind, changedNs: nanoseconds(mtime) };
}

/** restic prints up to nine digits of a second, of which a `Date` keeps three. */
function nanoseconds(time: string | undefined): bigint {
  if (time === undefined) return 0n;
  const [, digits = ''] = /\.(\d{1,9})/.exec(time) ?? [];
  const seconds = Math.floor(Date.parse(time) / 1000);
  return Number.isNaN(seconds) ? 0n : BigInt(seconds) * 1_000_000_000n + BigInt(digits.padEnd(9, '0'));
}

export interface Placed {
  /** Entries that were kept at the target by the overwrite rule. */
  skipped: Amount;
  /** Entries that could not be moved. */
  lost: Amount;
  failed: PathList;
}

export interface PlaceOptions {
  overwrite: Overwrite;
  signal: AbortSignal;
  /** Restore only this entry of the folder. */
  only?: Buffer;
}

/**
 * Moves the content of a folder into another one on the same disk. Both stay open and each name is looked up
 * in the open folder, so a user who can write to the target cannot redirect the move with a link.
 */
export async function placeAll(from: OpenFolder, to: OpenFolder, options: PlaceOptions): Promise<Placed> {
  const placed: Placed = {
    skipped: { files: 0, bytes: 0 },
    lost: { files: 0, bytes: 0 },
    failed: new PathList(),
  };
  await new Placing(placed, options).folder(from, to, ROOT);
  return placed;
}

/** Paths in the snapshot begin with a slash. */
const ROOT = '';

class Placing {
  readonly #placed: Placed;
  readonly #options: PlaceOptions;

  constructor(placed: Placed, options: PlaceOptions) {
    this.#placed = placed;
    this.#options = options;
  }

  /** @param within  the path in the snapshot, for messages */
  async folder(from: OpenFolder, to: OpenFolder, within: string): Promise<void> {
    const { only } = this.#options;
    for (const name of await from.names()) {
      if (within === ROOT && only?.equals(name) === false) continue;
      this.#options.signal.throwIfAborted();
      const where = `${within}/${nameText(name)}`;
      try {
        await this.#entry(name, { from, to, where });
      } catch (error) {
        this.#options.signal.throwIfAborted();
        await this.#fail(from, name, where, reasonOf(error));
      }
    }
  }

  async #entry(name: EntryName, { from, to, where }: { from: OpenFolder; to: OpenFolder; where: string }) {
    const restored = await from.find(name);
    if (restored === undefined) return;
    const present = await to.find(name);
    const decision =
      present === undefined
        ? 'replace'
        : decideOverwrite(this.#options.overwrite, foundOf(restored), foundOf(present));
    if (decision === 'keep') return add(this.#placed.skipped, await amountOf(from, name));
    if (decision === 'blocked') {
      return this.#fail(from, name, where, blockedBy(present?.isDirectory() === true));
    }
    if (decision === 'enter') return this.#enter(name, { from, to, where });
    // Only a restored folder needs the existing entry removed first: files and links are replaced by the
    // rename.
    if (present !== undefined && restored.isDirectory()) await to.removeFile(name);
    await from.move(name, to);
  }

  async #enter(name: EntryName, { from, to, where }: { from: OpenFolder; to: OpenFolder; where: string }) {
    const inner = await from.folder(name);
    try {
      const target = await to.folder(name);
      try {
        await this.folder(inner, target, where);
      } finally {
        await target.close();
      }
    } finally {
      await inner.close();
    }
  }

  async #fail(from: OpenFolder, name: EntryName, where: string, reason: string): Promise<void> {
    const amount = await amountOf(from, name).catch(() => ({ files: 0, bytes: 0 }));
    add(this.#placed.lost, amount);
    this.#placed.failed.add({ path: where, reason });
  }
}

/** The files and bytes of an entry: of one file, or of everything in a folder. */
async function amountOf(folder: OpenFolder, name: EntryName): Promise<Amount> {
  const found = await folder.find(name);
  if (found === undefined) return { files: 0, bytes: 0 };
  if (!found.isDirectory()) return { files: 1, bytes: found.isFile() ? Number(found.size) : 0 };
  const amount = { files: 0, bytes: 0 };
  const inner = await folder.folder(name);
  try {
    for (const each of await inner.names()) add(amount, await amountOf(inner, each));
  } finally {
    await inner.close();
  }
  return amount;
}

function add(sum: Amount, { files, bytes }: Amount): void {
  sum.files += files;
  sum.bytes += bytes;
}

function foundOf(stats: BigIntStats): Found {
  const kind = stats.isDirectory() ? 'folder' : stats.isFile() ? 'file' : 'other';
  return { kind, changedNs: stats.mtimeNs };
}

const blockedBy = (isFolder: boolean) =>
  isFolder ? 'a folder is there' : 'something else than a folder is there';

function reasonOf(error: unknown): string {
  if (hasCode(error, 'EXDEV')) return 'it would lie on another disk than the folder to restore to';
  if (hasCode(error, 'ELOOP') || hasCode(error, 'ENOTDIR')) return 'a link is there';
  if (isWriteRefused(error)) return 'the agent may not write there';
  if (hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST')) return 'something was created there meanwhile';
  return error instanceof Error && 'code' in error ? String(error.code) : 'it could not be moved';
}

type Overwrite = CommandPayload<'backup.restore'>['overwrite'];

/** An entry in the snapshot or in the target. */
interface Found {
  kind: 'folder' | 'file' | 'other';
  /** When the content was changed, in nanoseconds since 1970. */
  changedNs: bigint;
}

/**
 * What happens with an entry whose name exists at the target:
 * - `enter`: both are folders. The existing one stays, and each name in it is decided separately.
 * - `replace`: the existing file or link is removed.
 * - `keep`: the existing file or link stays.
 * - `blocked`: one is a folder and the other is not, and the rule does not allow to remove the existing one.
 * An existing folder is never removed.
 */
type Decision = 'enter' | 'replace' | 'keep' | 'blocked';

function decideOverwrite(rule: Overwrite, snapshot: Found, target: Found): Decision {
  if (target.kind === 'folder') return snapshot.kind === 'folder' ? 'enter' : 'blocked';
  if (rule === 'always') return 'replace';
  if (snapshot.kind === 'folder') return 'blocked';
  if (rule === 'never') return 'keep';
  return snapshot.changedNs > target.changedNs ? 'replace' : 'keep';
}

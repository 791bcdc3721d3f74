import {
  type EngineEntry,
  EngineError,
  listEntries,
  PathList,
  type PathReport,
  type ReadNames,
  SelectedPaths,
} from '../../../../engine/index.ts';
import type { RepositoryWork } from '../../../repository/repository-work.ts';
import type { Amount } from '../../../repository/room.ts';

/** Everything where it is left out. */
export type Selected = readonly string[] | undefined;

/** Something that a restore brings back, as it is listed. */
export interface Entry {
  /** As `pathText` writes it. */
  path: string;
  type: string;
  size?: number | undefined;
  mtime?: string | undefined;
  /** Why it cannot be restored, and nothing in it either. */
  leftOut?: string | undefined;
}
export type OnEntry = (entry: Entry) => void | Promise<void>;

export interface Selection extends Amount {
  /** Selected paths that the snapshot does not contain. */
  missing: string[];
  /** Those that cannot be restored. */
  leftOut: PathReport;
}

/** A snapshot as it is listed: by restic, and the names that restic cannot print by ourselves. */
export interface ListedSnapshot extends RepositoryWork {
  snapshotId: string;
  readNames: ReadNames;
}

/**
 * Reads what a restore will write, before it begins. `onEntry` gets each entry that is restored, and each folder above
 * one. Throws REPOSITORY_DAMAGED where a folder has a name twice: restic itself never makes such a folder, but somebody
 * who knows the password can, and restic would then change what a link leads to.
 *
 * A file with several names counts each time, so the size may be more than what is written.
 */
export const readSelection = (
  snapshot: ListedSnapshot,
  selected: Selected,
  onEntry?: OnEntry,
): Promise<Selection> => selectFrom(() => listed(snapshot), selected, onEntry);

/** The paths of all files that a restore writes. */
export async function* selectedFiles(
  snapshot: ListedSnapshot,
  selected: Selected,
): AsyncGenerator<string, void> {
  const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
  for await (const { path, type } of listed(snapshot)) {
    if (type !== 'dir' && type !== 'socket' && wanted?.has(path) !== false) yield path;
  }
}

/** @param list  everything, or less: what is neither selected nor above something selected is not needed */
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
    // A socket is nothing without the program that has made it. It is missed only where it was wanted itself.
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

/** restic prints the names of each folder in order, each followed by what is in it. */
class NameCheck {
  /** The last entry of each level, and of the levels above it. */
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

import {
  type Engine,
  type EngineEntry,
  EngineError,
  listEntries,
  PathList,
  type PathReport,
  type Repository,
  type RunOptions,
} from '../../../../engine/index.ts';
import type { Amount } from '../../../repository/room.ts';

export interface SelectionQuery {
  snapshotId: string;
  /** Everything where it is left out. */
  selected?: readonly string[] | undefined;
}

/** Something that a restore brings back, as it is listed. */
export interface Entry {
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
  leftOut: PathReport['paths'];
}

/**
 * Reads what a restore will write, before it begins. `onEntry` gets each entry that is restored, and each folder above
 * one. Throws REPOSITORY_DAMAGED where a folder has a name twice: restic itself never makes such a folder, but somebody
 * who knows the password can, and restic would then change what a link leads to.
 *
 * A file with several names counts each time, so the size may be more than what is written.
 */
export const readSelection = (
  engine: Engine,
  repository: Repository,
  { snapshotId, selected }: SelectionQuery,
  options: RunOptions,
  onEntry?: OnEntry,
): Promise<Selection> =>
  selectFrom(() => checked(listEntries(engine, repository, { snapshotId }, options)), selected, onEntry);

/** @param list  everything, or less: what is neither selected nor above something selected is not needed */
export async function selectFrom(
  list: (wanted: SelectedPaths | undefined) => AsyncIterable<Entry>,
  selected: readonly string[] | undefined,
  onEntry: OnEntry = () => {},
): Promise<Selection> {
  const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
  const amount = { files: 0, bytes: 0 };
  const leftOut = new PathList();
  for await (const entry of list(wanted)) {
    const isSelected = wanted?.has(entry.path) ?? true;
    if (!isSelected && wanted?.isAbove(entry.path) !== true) continue;
    if (entry.leftOut !== undefined) {
      leftOut.add({ path: entry.path, reason: entry.leftOut });
      continue;
    }
    await onEntry(entry);
    if (!isSelected || entry.type === 'dir') continue;
    amount.files += 1;
    amount.bytes += entry.size ?? 0;
  }
  const missing = wanted?.missing() ?? [];
  if (wanted !== undefined && missing.length === wanted.size) throw new EngineError('PATH_MISSING');
  return { ...amount, missing, leftOut: leftOut.report().paths };
}

async function* checked(entries: AsyncIterable<EngineEntry>): AsyncGenerator<Entry, void> {
  const names = new NameCheck();
  for await (const entry of entries) {
    names.check(entry);
    yield entry;
  }
}

/** Selected paths, each with everything below it. */
export class SelectedPaths {
  readonly #paths: ReadonlySet<string>;
  readonly #above = new Set<string>();
  readonly #found = new Set<string>();

  constructor(selected: readonly string[]) {
    this.#paths = new Set(selected.map(withoutSlash));
    for (const path of this.#paths) for (const parent of parentsOf(path)) this.#above.add(parent);
  }

  get size(): number {
    return this.#paths.size;
  }

  has(path: string): boolean {
    if (this.#paths.has(path)) this.#found.add(path);
    return [path, ...parentsOf(path), '/'].some((each) => this.#paths.has(each));
  }

  isAbove(path: string): boolean {
    return this.#above.has(path);
  }

  missing(): string[] {
    return [...this.#paths].filter((path) => path !== '/' && !this.#found.has(path));
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
    // Names that are not valid UTF-8 may differ although they are printed in the same way.
    const isUncertain = entry.name.includes('\uFFFD');
    if (isUncertain && ![before, entry].some(({ type }) => type === 'symlink')) return;
    throw new EngineError('REPOSITORY_DAMAGED', {
      message: 'A folder of the snapshot contains the same name twice. Nothing was restored.',
      detail: entry.path,
    });
  }
}

const withoutSlash = (path: string) => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path);

/** For `/a/b/c`: `/a/b` and `/a`. */
function parentsOf(path: string): string[] {
  const parents: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    parents.push(path.slice(0, at));
  }
  return parents;
}

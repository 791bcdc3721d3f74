import {
  type Engine,
  EngineError,
  listEntries,
  type Repository,
  type RunOptions,
} from '../../../../engine/index.ts';
import type { Amount } from '../../../repository/room.ts';

export interface SelectionQuery {
  snapshotId: string;
  /** Everything where it is left out. */
  selected?: readonly string[] | undefined;
}

export type Entry = ReturnType<typeof listEntries> extends AsyncGenerator<infer E> ? E : never;

export interface Selection extends Amount {
  /** Selected paths that the snapshot does not contain. */
  missing: string[];
}

/**
 * Reads what a restore will write, before it begins. `onEntry` gets each entry that is restored, and each folder above
 * one. Throws REPOSITORY_DAMAGED where a folder has a name twice: restic itself never makes such a folder, but somebody
 * who knows the password can, and restic would then change what a link leads to.
 *
 * A file with several names counts each time, so the size may be more than what is written.
 */
export async function readSelection(
  engine: Engine,
  repository: Repository,
  { snapshotId, selected }: SelectionQuery,
  options: RunOptions,
  onEntry: (entry: Entry, isSelected: boolean) => void | Promise<void> = () => {},
): Promise<Selection> {
  const wanted = selected === undefined ? undefined : new Wanted(selected);
  const names = new NameCheck();
  const amount = { files: 0, bytes: 0 };
  for await (const entry of listEntries(engine, repository, { snapshotId }, options)) {
    names.check(entry);
    const isSelected = wanted?.has(entry.path) ?? true;
    if (!isSelected && wanted?.isAbove(entry.path) !== true) continue;
    await onEntry(entry, isSelected);
    if (!isSelected || entry.type === 'dir') continue;
    amount.files += 1;
    amount.bytes += entry.size ?? 0;
  }
  const missing = wanted?.missing() ?? [];
  if (wanted !== undefined && missing.length === wanted.size) throw new EngineError('PATH_MISSING');
  return { ...amount, missing };
}

/** Selected paths, each with everything below it. */
class Wanted {
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
  readonly #last: Entry[] = [];

  check(entry: Entry): void {
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

import type { FolderEntry, TreeReader, WholeEntry } from './tree.ts';
import { damaged } from './unpack.ts';

/** What two folders differ in, found by their ids: a folder that is the same in both is not even read. */

export interface Difference {
  path: string;
  kind: 'added' | 'removed' | 'changed' | 'type_changed';
  before: FolderEntry | undefined;
  after: FolderEntry | undefined;
}

export interface ComparedFolder {
  /** Entries that were looked at. */
  compared: number;
  differences: Difference[];
}

export interface ComparedIds {
  /** `undefined`: there is none, so that everything in the other one was added or removed. */
  before: string | undefined;
  after: string | undefined;
  /** Of both, without a slash at its end. */
  path: string;
}

const DEPTH_MAX = 4096;

/** Folder by folder, in each of them first the present entries and then those that were removed. */
export async function* compareFolders(
  trees: TreeReader,
  root: ComparedIds,
): AsyncGenerator<ComparedFolder, void> {
  const open = [{ ...root, depth: 0 }];
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    const { before, after, path, depth } = folder;
    if (before === after) continue;
    if (depth > DEPTH_MAX) throw damaged(`The snapshot is deeper than ${DEPTH_MAX} folders.`);
    const [old, now] = [await entriesOf(trees, before), await entriesOf(trees, after)];
    const pairs = pairsOf(old, now);
    yield {
      compared: old.length + now.length,
      differences: pairs.flatMap((pair) => differenceOf(pair, path)),
    };
    const inner = pairs.flatMap((pair) => {
      const ids = { before: subtreeOf(pair.before), after: subtreeOf(pair.after) };
      const name = (pair.after ?? pair.before)?.name ?? '';
      return ids.before === ids.after ? [] : [{ ...ids, path: `${path}/${name}`, depth: depth + 1 }];
    });
    for (const each of inner.reverse()) open.push(each);
  }
}

interface Pair {
  before: WholeEntry | undefined;
  after: WholeEntry | undefined;
}

const entriesOf = async (trees: TreeReader, id: string | undefined): Promise<readonly WholeEntry[]> =>
  id === undefined ? [] : trees.readWhole(id);

/** By name. A forged folder can have one twice: those are paired in their order. */
function pairsOf(old: readonly WholeEntry[], now: readonly WholeEntry[]): Pair[] {
  const left = new Map<string, WholeEntry[]>();
  for (const entry of old) {
    const same = left.get(entry.name);
    if (same === undefined) left.set(entry.name, [entry]);
    else same.push(entry);
  }
  for (const same of left.values()) same.reverse();
  const pairs = now.map((after): Pair => ({ before: left.get(after.name)?.pop(), after }));
  const removed = [...left.values()].flatMap((same) => same.reverse());
  return [...pairs, ...removed.map((before): Pair => ({ before, after: undefined }))];
}

function differenceOf({ before, after }: Pair, above: string): Difference[] {
  const kind = kindOf(before, after);
  const name = (after ?? before)?.name ?? '';
  return kind === undefined
    ? []
    : [{ path: `${above}/${name}`, kind, before: asEntry(before), after: asEntry(after) }];
}

function kindOf(
  before: WholeEntry | undefined,
  after: WholeEntry | undefined,
): Difference['kind'] | undefined {
  if (before === undefined) return 'added';
  if (after === undefined) return 'removed';
  if (before.type !== after.type) return 'type_changed';
  const isSame =
    before.sizeBytes === after.sizeBytes &&
    before.linkTarget === after.linkTarget &&
    before.content.length === after.content.length &&
    before.content.every((id, at) => id === after.content[at]);
  // Of folders the content has differences of its own.
  return isSame || after.type === 'dir' ? undefined : 'changed';
}

const subtreeOf = (entry: WholeEntry | undefined): string | undefined =>
  entry?.type === 'dir' ? (entry.subtree ?? undefined) : undefined;

/** Without the parts of files, which would stay in memory with it. */
function asEntry(entry: WholeEntry | undefined): FolderEntry | undefined {
  if (entry === undefined) return undefined;
  const { content: _content, linkTarget: _linkTarget, ...shown } = entry;
  return shown;
}

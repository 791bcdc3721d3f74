import type { BigIntStats } from 'node:fs';
import { PathList } from '../../../../engine/index.ts';
import { nameText } from '../../../os/files/path-bytes.ts';
import { hasCode } from '../../../os/files/private-file.ts';
import { isWriteRefused } from '../../../repository/backup-error.ts';
import type { Amount } from '../../../repository/room.ts';
import type { EntryName, OpenFolder } from '../../../os/files/open-folder.ts';
import { decideOverwrite, type Found, type Overwrite } from './overwrite.ts';

export interface Placed {
  /** What was not moved, because it was there and the rule keeps it. */
  skipped: Amount;
  /** What could not be moved. */
  lost: Amount;
  failed: PathList;
}

export interface PlaceOptions {
  overwrite: Overwrite;
  signal: AbortSignal;
  /** Of the folder itself, only this name. */
  only?: Buffer;
}

/**
 * Moves everything from one folder into another one of the same disk. Both are held open, and every name is looked up in
 * the open folder, so that a user who may write to the target cannot lead the move to another place by a link.
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
    // Only a folder that was restored has to make room for itself: a file or a link replaces another one by itself.
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

/** How much a name stands for: a file, or everything in a folder. */
export async function amountOf(folder: OpenFolder, name: EntryName): Promise<Amount> {
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

export function add(sum: Amount, { files, bytes }: Amount): void {
  sum.files += files;
  sum.bytes += bytes;
}

export function foundOf(stats: BigIntStats): Found {
  const kind = stats.isDirectory() ? 'folder' : stats.isFile() ? 'file' : 'other';
  return { kind, changedNs: stats.mtimeNs };
}

export const blockedBy = (isFolder: boolean) =>
  isFolder ? 'a folder is there' : 'something else than a folder is there';

function reasonOf(error: unknown): string {
  if (hasCode(error, 'EXDEV')) return 'it would lie on another disk than the folder to restore to';
  if (hasCode(error, 'ELOOP') || hasCode(error, 'ENOTDIR')) return 'a link is there';
  if (isWriteRefused(error)) return 'the agent may not write there';
  if (hasCode(error, 'ENOTEMPTY') || hasCode(error, 'EEXIST')) return 'something was created there meanwhile';
  return error instanceof Error && 'code' in error ? String(error.code) : 'it could not be moved';
}

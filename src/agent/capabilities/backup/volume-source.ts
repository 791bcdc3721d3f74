import type { FileHandle } from 'node:fs/promises';
import { EngineError, PathList, type PathReport, type VolumeEntry } from '../../../../../engine/index.ts';
import type { OpenFolder } from '../../../../os/files/open-folder.ts';
import { hasCode } from '../../../../os/files/private-file.ts';
import { isWriteRefused } from '../../../../repository/backup-error.ts';
import type { Amount } from '../../../../repository/room.ts';
import type { Entry } from '../selection.ts';
import { writeContent } from './write-content.ts';

type Written = VolumeEntry & Entry;

interface WriterOptions {
  signal: AbortSignal;
  onWritten: (done: Amount, path: string) => void;
}

/** A folder that is being filled. Its rights and times come when everything is in it. */
interface Filled {
  folder: OpenFolder;
  /** `undefined`: the one that everything is in. */
  entry: Written | undefined;
  /** Where the system takes names for the same that differ in case: those that were made in it. */
  names: Set<string> | undefined;
}

/** A file with several names: where the first one is, and how many are still to come. */
interface Named {
  names: Buffer[];
  left: number;
}

/** More of them become files of their own. */
const NAMED_MAX = 200_000;
/** Larger files are on the disk before they count as complete; smaller ones are quickly written again. */
const SYNCED_BYTES = 1024 * 1024;
const SET_ID = 0o6000;

/**
 * Makes files, folders and links in a private folder, each by its name in a folder that is held open, so that nothing is
 * ever written through a link. What an interrupted run has left there is gone on with.
 */
export class TreeWriter {
  readonly #options: WriterOptions;
  readonly #open: Filled[];
  readonly #named = new Map<number, Named>();
  readonly #done: Amount = { files: 0, bytes: 0 };
  readonly #failed = new PathList();

  /** @param root  is closed by `end` */
  constructor(root: OpenFolder, options: WriterOptions) {
    this.#open = [{ folder: root, entry: undefined, names: noNames() }];
    this.#options = options;
  }

  /** In the order of the tree: a folder, then what is in it. Throws only what ends the whole restore. */
  async add(entry: Written): Promise<void> {
    while (this.#open.length > entry.depth + 1) await this.#leave();
    const above = this.#open[entry.depth];
    // Its folder could not be made, which was said of that one.
    if (above === undefined) return;
    if (entry.leftOut !== undefined) return this.#fail(entry, entry.leftOut);
    const name = entry.name.toString('utf8').normalize('NFC').toLowerCase();
    if (above.names?.has(name) === true) return this.#fail(entry, 'here its name is that of another one');
    above.names?.add(name);
    try {
      await this.#make(above.folder, entry);
    } catch (error) {
      this.#options.signal.throwIfAborted();
      this.#fail(entry, reasonOf(error));
    }
  }

  async end(): Promise<void> {
    while (this.#open.length > 0) await this.#leave();
  }

  result(): Amount & { failed: PathReport } {
    return { ...this.#done, failed: this.#failed.report() };
  }

  async #make(folder: OpenFolder, entry: Written): Promise<void> {
    if (entry.type === 'dir') return this.#enter(folder, entry);
    const before = this.#done.bytes;
    try {
      if (entry.linkTarget !== null) await this.#link(folder, entry, entry.linkTarget);
      else if (entry.content !== null) await this.#file(folder, entry);
      this.#done.files += 1;
      this.#done.bytes = before + (entry.content === null ? 0 : entry.sizeBytes);
    } catch (error) {
      this.#done.bytes = before;
      throw error;
    }
    this.#options.onWritten(this.#done, entry.path);
  }

  async #enter(above: OpenFolder, entry: Written): Promise<void> {
    const present = await above.find(entry.name);
    if (present !== undefined && !present.isDirectory()) await above.removeFile(entry.name);
    const folder = await (present?.isDirectory() === true
      ? above.folder(entry.name)
      : above.makeFolder(entry.name));
    this.#open.push({ folder, entry, names: noNames() });
    // It may be complete already, with the rights of the snapshot.
    if (present?.isDirectory() === true) await folder.setMode(0o700);
  }

  async #leave(): Promise<void> {
    const left = this.#open.pop();
    if (left === undefined) return;
    const { folder, entry } = left;
    try {
      if (entry?.inode == null || this.#options.signal.aborted) return;
      const { uid, gid, mode, modifiedAt } = entry.inode;
      const isOwned = await owned(() => folder.setOwner(uid, gid));
      await folder.setMode(isOwned ? mode : mode & ~SET_ID);
      await folder.setTime(secondsOf(modifiedAt));
    } catch (error) {
      this.#fail(entry, `its rights: ${reasonOf(error)}`);
    } finally {
      await folder.close();
    }
  }

  async #link(folder: OpenFolder, { name, inode }: Written, target: Buffer): Promise<void> {
    await makeRoom(folder, name);
    await folder.newLink(name, target);
    if (inode === null) return;
    await owned(() => folder.setLinkOwner(name, inode.uid, inode.gid));
    await folder.setLinkTime(name, secondsOf(inode.modifiedAt));
  }

  async #file(folder: OpenFolder, entry: Written): Promise<void> {
    const { inode, name } = entry;
    const first = inode === null ? undefined : this.#named.get(inode.number);
    if (inode !== null && first !== undefined) {
      await makeRoom(folder, name);
      await this.#addName(folder, name, first.names);
      first.left -= 1;
      if (first.left === 0) this.#named.delete(inode.number);
      return;
    }
    if (!(await isComplete(folder, entry))) await this.#write(folder, entry);
    if (inode === null || inode.links < 2 || this.#named.size >= NAMED_MAX) return;
    const above = this.#open.slice(1, entry.depth + 1).flatMap(({ entry: each }) => each?.name ?? []);
    this.#named.set(inode.number, { names: [...above, name], left: inode.links - 1 });
  }

  async #write(folder: OpenFolder, entry: Written): Promise<void> {
    const { name, content } = entry;
    if (content === null) return;
    await makeRoom(folder, name);
    const handle = await folder.newFile(name);
    try {
      await writeContent(content, handle, {
        signal: this.#options.signal,
        onBytes: (bytes) => {
          this.#done.bytes += bytes;
          this.#options.onWritten(this.#done, entry.path);
        },
      });
      if (content.length >= SYNCED_BYTES) await handle.datasync();
      await setFacts(handle, entry);
    } catch (error) {
      // A part of a file must not look like the whole one.
      await folder.removeFile(name).catch(() => {});
      throw error;
    } finally {
      await handle.close();
    }
  }

  async #addName(folder: OpenFolder, name: Buffer, first: readonly Buffer[]): Promise<void> {
    const opened: OpenFolder[] = [];
    try {
      let from = this.#open[0]?.folder;
      for (const each of first.slice(0, -1)) {
        from = await from?.folder(each);
        if (from !== undefined) opened.push(from);
      }
      const last = first.at(-1);
      if (from !== undefined && last !== undefined) await folder.addName(name, { folder: from, name: last });
    } finally {
      for (const each of opened) await each.close();
    }
  }

  #fail(entry: Pick<Written, 'path'> | undefined, reason: string): void {
    if (entry !== undefined) this.#failed.add({ path: entry.path, reason });
  }
}

const noNames = () => (process.platform === 'linux' ? undefined : new Set<string>());

/** Its time is what is set last. */
async function isComplete(folder: OpenFolder, { name, sizeBytes, inode }: Written): Promise<boolean> {
  if (sizeBytes < SYNCED_BYTES || inode === null) return false;
  const found = await folder.find(name);
  if (found?.isFile() !== true || found.nlink !== 1n || found.size !== BigInt(sizeBytes)) return false;
  return found.mtimeNs / 1000n === microsOf(inode.modifiedAt);
}

async function makeRoom(folder: OpenFolder, name: Buffer): Promise<void> {
  if ((await folder.find(name)) !== undefined) await folder.removeAll(name);
}

async function setFacts(handle: FileHandle, { inode }: Written): Promise<void> {
  if (inode === null) return;
  const isOwned = await owned(() => handle.chown(inode.uid, inode.gid));
  await handle.chmod(isOwned ? inode.mode : inode.mode & ~SET_ID);
  const seconds = secondsOf(inode.modifiedAt);
  await handle.utimes(seconds, seconds);
}

/** An agent that is not root cannot give files away: they are its own then, and no program runs as their owner. */
async function owned(change: () => Promise<void>): Promise<boolean> {
  try {
    await change();
    return true;
  } catch (error) {
    if (process.getuid?.() === 0 || !isWriteRefused(error)) throw error;
    return false;
  }
}

const microsOf = (time: string): bigint =>
  BigInt(Date.parse(`${time.slice(0, -8)}Z`)) * 1000n + BigInt(time.slice(-7, -1));

/** In the middle of its microsecond, because Node cuts off what is less. */
const secondsOf = (time: string): number => (Number(microsOf(time)) + 0.5) / 1_000_000;

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'something with the same name was restored before',
  EILSEQ: 'the disk allows no such name',
  EINVAL: 'the disk allows no such name',
  ENAMETOOLONG: 'its name is too long',
};
const DAMAGES = new Set<string>(['FILE_SYSTEM_DAMAGED', 'REPOSITORY_DAMAGED', 'PATH_MISSING']);

/** Throws what does not concern one file only. */
function reasonOf(error: unknown): string {
  if (['ENOSPC', 'EDQUOT'].some((code) => hasCode(error, code))) throw new EngineError('TARGET_FULL');
  if (error instanceof EngineError) {
    if (DAMAGES.has(error.code)) return 'damaged';
    throw error;
  }
  if (isWriteRefused(error)) return 'the agent may not make it';
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  return REASONS[code ?? ''] ?? code ?? 'it could not be made';
}

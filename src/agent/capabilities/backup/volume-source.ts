import { clock } from '../../../clock.ts';
import {
  type FileSystemReader,
  ProgressMeter,
  SelectedPaths,
  type VolumeEntry,
  EngineError,
  findVolume,
  type ObjectSource,
  openExt,
  openMachineIn,
  openRepository,
  volumeOf,
  PathList,
  type PathReport,
  type FileContent,
} from '../../../engine/index.ts';
import type { CommandPayload } from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { OpenFolder } from '../../os/files/open-folder.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import type { Network } from '../../os/network/network.ts';
import { patient, remembering, sourceOf } from '../../repository/repository-source.ts';
import type { RepositoryWork } from '../../repository/repository-work.ts';
import { type RestoreSource, type Entry, selectFrom } from './restore-plan.ts';
import type { FileHandle } from 'node:fs/promises';
import { hasCode } from '../../os/files/private-file.ts';
import { isWriteRefused } from '../../repository/local-engine.ts';
import type { Amount } from '../../repository/target-folder.ts';

type Wanted = Pick<CommandPayload<'backup.image-files-restore'>, 'snapshotId' | 'volume'>;

/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

/** Reads the file system of a volume directly from the repository: without mounting, and without another program. */
export async function openVolume(
  { repository, options: { signal } }: RepositoryWork,
  network: Network,
  { snapshotId, volume }: Wanted,
): Promise<FileSystemReader> {
  const { password, keyHint, destination } = repository;
  const objects = sourceOf(repository, network, signal);
  const source = withGaps(
    remembering(destination.type === 'local' ? objects : patient(objects, signal)),
    signal,
  );
  const reader = await openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  const opened = await reader.openContent(
    { snapshotId, path: volume.imagePath },
    { limits: { entries: 10, parts: PARTS_MAX }, signal },
  );
  if (opened === 'too_large' || opened.type !== 'file') {
    throw new EngineError('REPOSITORY_DAMAGED', { detail: 'The image is no file that can be read.' });
  }
  const found = findVolume(await openMachineIn(opened.content), volume);
  if ('missing' in found) {
    const { disk, partition = 'of the whole disk' } = volume;
    throw found.missing === 'disk'
      ? new AgentError('DISK_MISSING', `The image has no disk ${disk}. It has: ${found.known}.`)
      : new AgentError(
          'PARTITION_MISSING',
          `The disk ${disk} has no partition ${partition}. It has: ${found.known}.`,
        );
  }
  return openExt(volumeOf(opened.content, found.volume));
}

/** A missing pack damages only the files that are in it. */
const withGaps = (source: ObjectSource, signal: AbortSignal): ObjectSource => ({
  list: (type) => source.list(type),
  get: (type, name, range) =>
    source.get(type, name, range).catch((error: unknown) => {
      signal.throwIfAborted();
      const isOfStore = error instanceof EngineError && error.code !== 'REPOSITORY_MISSING';
      if (type !== 'data' || isOfStore) throw error;
      throw new EngineError('REPOSITORY_DAMAGED', {
        detail: `The pack ${name} cannot be read.`,
        cause: error,
      });
    }),
});

/** Folders that stay open while a file below them is written. */
const DEPTH_MAX = 200;
const PROGRESS_MS = 250;

const KINDS: Partial<Record<VolumeEntry['type'], string>> = {
  dev: 'a device, which is not restored',
  chardev: 'a device, which is not restored',
  fifo: 'a pipe, which is not restored',
  socket: 'a socket, which is not restored',
  irregular: 'of an unknown kind',
};

/**
 * Restores files of a volume of an image with our own code. Unreadable files are reported, and the rest is
 * restored.
 */
export function volumeSource(files: FileSystemReader, signal: AbortSignal): RestoreSource {
  async function* entries(wanted: SelectedPaths | undefined): AsyncGenerator<VolumeEntry & Entry, void> {
    const isWanted = (path: string) => wanted === undefined || wanted.has(path) || wanted.isAbove(path);
    /** Depth of the folder that is skipped together with its content. */
    let leftOutAt: number | undefined;
    for await (const entry of files.tree({ enters: isWanted, signal })) {
      if (leftOutAt !== undefined && entry.depth > leftOutAt) continue;
      leftOutAt = undefined;
      // A socket is useless without its program. restic does not restore sockets either.
      const isMissed = entry.type !== 'socket' || wanted?.names(entry.path) === true;
      if (!isMissed || !isWanted(entry.path)) continue;
      const leftOut = entry.leftOut ?? whyLeftOut(entry);
      if (leftOut !== undefined) leftOutAt = entry.depth;
      yield { ...entry, leftOut, size: entry.sizeBytes, mtime: entry.inode?.modifiedAt };
    }
  }

  return {
    continues: true,
    isPathLimited: false,
    select: (selected, onEntry) => selectFrom(entries, selected, onEntry),
    async fetch(folder, { selected, expected }, onProgress) {
      const meter = new ProgressMeter();
      let reportedAt = 0;
      const root = await OpenFolder.open(await openPrivateFolder(folder));
      const writer = new TreeWriter(root, {
        signal,
        onWritten({ files: done, bytes }, currentFile) {
          const now = clock.monotonic();
          if (now - reportedAt < PROGRESS_MS) return;
          reportedAt = now;
          const total = { totalBytes: expected.bytes, totalFiles: expected.files };
          onProgress(meter.measure({ files: done, bytes, ...total, currentFile }, now));
        },
      });
      try {
        const wanted = selected === undefined ? undefined : new SelectedPaths(selected);
        for await (const entry of entries(wanted)) await writer.add(entry);
      } finally {
        await writer.end();
      }
      return writer.result();
    },
  };
}

const whyLeftOut = ({ type, depth, name }: VolumeEntry): string | undefined =>
  KINDS[type] ?? (depth > DEPTH_MAX ? 'in too many folders' : whyNotHere(name));

/** File names of Linux that have a special meaning on other systems. */

/** Windows takes these for devices, whatever ending follows. */
const WINDOWS_NAMES = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d¹²³]) *(\.|$)/i;

/** Why a file cannot have this name on this machine. Linux allows every name that a file system can hold. */
export function whyNotHere(name: Buffer, platform: NodeJS.Platform = process.platform): string | undefined {
  if (platform === 'linux') return undefined;
  const text = name.toString('utf8');
  // Windows and macOS store names as characters.
  if (!Buffer.from(text).equals(name)) return 'its name is not valid UTF-8, which this system needs';
  if (platform !== 'win32') return undefined;
  // oxlint-disable-next-line no-control-regex -- these are what Windows refuses
  const isPossible = !/[<>:"/\\|?*\u0000-\u001f]|[. ]$/.test(text) && !WINDOWS_NAMES.test(text);
  return isPossible ? undefined : 'Windows allows no such name';
}

type Written = VolumeEntry & Entry;

interface WriterOptions {
  signal: AbortSignal;
  onWritten: (done: Amount, path: string) => void;
}

/** A folder that is being filled. Its rights and times are set when its content is complete. */
interface Filled {
  folder: OpenFolder;
  /** `undefined`: the root of the restore. */
  entry: Written | undefined;
  /** On systems that ignore case: the names that were created in it. */
  names: Set<string> | undefined;
}

/** A file with hard links: the path of the first one, and how many are still to come. */
interface Named {
  names: Buffer[];
  left: number;
}

/** Beyond this number, hard links become separate files. */
const NAMED_MAX = 200_000;
/** Larger files are synced before they count as complete; smaller ones are quickly written again. */
const SYNCED_BYTES = 1024 * 1024;
const SET_ID = 0o6000;

/**
 * Creates files, folders and links in a private folder, each by name in an open folder, so nothing is ever
 * written through a link. An interrupted run is resumed.
 */
class TreeWriter {
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

  /** Entries must come in tree order: a folder, then its content. Throws only errors that end the whole restore. */
  async add(entry: Written): Promise<void> {
    while (this.#open.length > entry.depth + 1) await this.#leave();
    const above = this.#open[entry.depth];
    // Its folder could not be created, which has been reported.
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
    // The file may be complete already, with the rights of the snapshot.
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
      // A partial file must not look complete.
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

/** The time is set last. */
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

/** An agent that is not root cannot change the owner: it keeps the files, and removes setuid and setgid. */
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

/** Rounded to the middle of the microsecond, because Node truncates. */
const secondsOf = (time: string): number => (Number(microsOf(time)) + 0.5) / 1_000_000;

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'something with the same name was restored before',
  EILSEQ: 'the disk allows no such name',
  EINVAL: 'the disk allows no such name',
  ENAMETOOLONG: 'its name is too long',
};
const DAMAGES = new Set<string>(['FILE_SYSTEM_DAMAGED', 'REPOSITORY_DAMAGED', 'PATH_MISSING']);

/** Throws errors that do not concern one file only. */
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

const STEP = 64 * 1024;
const ZEROS = Buffer.alloc(STEP);

interface WriteOptions {
  signal: AbortSignal;
  onBytes: (bytes: number) => void;
}

/** Writes into an empty file, piece by piece, and leaves holes for zeros. */
async function writeContent(
  content: FileContent,
  handle: FileHandle,
  { signal, onBytes }: WriteOptions,
): Promise<void> {
  let at = 0;
  for await (const piece of content.read()) {
    signal.throwIfAborted();
    await writePiece(handle, piece, at);
    at += piece.length;
    onBytes(piece.length);
  }
  if (at !== content.length) throw new EngineError('FILE_SYSTEM_DAMAGED');
  await handle.truncate(content.length);
}

async function writePiece(handle: FileHandle, piece: Buffer, at: number): Promise<void> {
  for (let start = 0; start < piece.length; ) {
    let end = start;
    while (end < piece.length && !isEmpty(piece, end)) end += STEP;
    end = Math.min(end, piece.length);
    if (end === start) start += STEP;
    else {
      await writeAll(handle, piece.subarray(start, end), at + start);
      start = end;
    }
  }
}

function isEmpty(piece: Buffer, from: number): boolean {
  const step = piece.subarray(from, from + STEP);
  return step.equals(ZEROS.subarray(0, step.length));
}

async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

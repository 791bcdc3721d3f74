import {
  type MachineDisk,
  type DiskPlace,
  dump,
  type Engine,
  EngineError,
  MACHINE_PATH,
  type MachineDescription,
  type ObjectSource,
  openMachineIn,
  openRepository,
  type Repository,
} from '../../../engine/index.ts';
import { fitTable, growFileSystem } from '../../os/partition-tables.ts';
import { AgentError } from '../../core/agent-error.ts';
import { openDiskTarget, checkDisk, type DiskCheck } from './disk-target.ts';
import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { appendPrivate, readPrivateFile, replaceFile } from '../../os/files/private-file.ts';
import { readFrom } from '../../os/read-disk.ts';

/** Restores one disk of an image from the repository to its target. */

interface DiskRestore {
  image: OpenedImage;
  snapshotId: string;
  disk: string;
  target: string;
  mayOverwrite: boolean;
  keepsSize: boolean;
  /** Grows the last partition to the end of a larger target, and an ext file system in it. */
  grow: boolean;
  /** Journal of what an interrupted run has written. */
  journalFile: string;
  forbidden: string;
  extentBytes?: number | undefined;
  signal: AbortSignal;
  onProgress: (phase: string, done: number, total: number) => void;
}

export interface RestoredDisk {
  disk: string;
  target: string;
  bytes: number;
  /** Hash of the whole disk as read back, before its table was fitted to the target. */
  sha256: string;
  /** Bytes that an earlier run had already written. */
  continuedFrom: number;
  grown: { number: number; sizeBytes: number } | null;
  checks: DiskCheck[];
}

const EXTENT_BYTES = 64 * 1024 * 1024;

export async function restoreDisk(restore: DiskRestore): Promise<RestoredDisk> {
  const { image, snapshotId, target, signal, extentBytes = EXTENT_BYTES } = restore;
  const { place, described } = findDisk(image, restore.disk);
  const identity = { snapshotId, disk: place.name, sizeBytes: place.sizeBytes, target, extentBytes };
  const journal = await CopyJournal.open(restore.journalFile, identity);
  const isContinued = journal.hashes.length > 0;
  const opened = await openDiskTarget({
    target,
    sizeBytes: place.sizeBytes,
    contentBytes: described.contentBytes ?? place.sizeBytes,
    mayOverwrite: restore.mayOverwrite,
    isContinued,
    keepsSize: restore.keepsSize,
    forbidden: restore.forbidden,
  });
  const { handle } = opened;
  try {
    let continuedFrom = 0;
    const sha256 = await copyDisk({
      sizeBytes: place.sizeBytes,
      read(first) {
        continuedFrom = first;
        return image.read(place, first);
      },
      target: handle,
      isSparse: opened.isSparse,
      journal,
      extentBytes,
      signal,
      onProgress: (phase, done) => restore.onProgress(phase, done, place.sizeBytes),
    });
    const grown = await fitTable(handle, described, opened.sizeBytes, restore.grow);
    const notGrown =
      grown === undefined ? undefined : await growFileSystem(handle, opened.path, grown, signal);
    const isBootDisk = image.disks[0]?.name === place.name;
    const machine = image.description;
    const checks = await checkDisk({
      handle,
      path: opened.path,
      targetBytes: opened.sizeBytes,
      disk: described,
      machine,
      isBootDisk,
      signal,
    });
    if (notGrown !== undefined) checks.push({ name: 'growth', ok: true, message: notGrown });
    await journal.remove();
    return {
      disk: place.name,
      target,
      bytes: place.sizeBytes,
      sha256,
      continuedFrom,
      grown: grown === undefined ? null : { number: grown.number, sizeBytes: grown.sizeBytes },
      checks,
    };
  } finally {
    await handle.close();
  }
}

function findDisk({ disks, description }: OpenedImage, name: string) {
  const place = disks.find((each) => each.name === name);
  const described: MachineDisk | undefined = description.disks.find((each) => each.name === name);
  if (place !== undefined && described !== undefined) return { place, described };
  const names = disks.map((each) => each.name).join(', ');
  throw new AgentError('DISK_MISSING', `The image has no disk ${name}. It has: ${names}.`);
}

/** The named disk, or the only one. Throws `DISK_MISSING`. */
export function diskOf({ disks }: OpenedImage, name: string | undefined): string {
  const [only, ...others] = disks;
  if (name !== undefined) return name;
  if (only !== undefined && others.length === 0) return only.name;
  throw new AgentError('DISK_MISSING', `The image has ${disks.length} disks. Name one of them.`);
}

/** The disks of a snapshot, readable from any byte on. */

export interface OpenedImage {
  description: MachineDescription;
  disks: DiskPlace[];
  /** From a byte of the disk to its end. */
  read(disk: DiskPlace, first: number): AsyncGenerator<Uint8Array, void>;
}

interface ImagePlace {
  repository: Repository;
  source: ObjectSource;
  snapshotId: string;
  signal: AbortSignal;
  /** restic, if it is installed: it reads faster than our reader, and only from the beginning. */
  restic?: { engine: Engine; options: object } | undefined;
}

/** How many bytes restic may read and discard before the first byte that is needed. */
const SKIPPED_MAX = 64 * 1024 * 1024;
/** A disk of several terabytes. */
const PARTS_MAX = 8_000_000;

/** Throws `EngineError`: REPOSITORY_DAMAGED also if the snapshot is not an image. */
export async function openImage(place: ImagePlace): Promise<OpenedImage> {
  const { repository, source, snapshotId, signal, restic } = place;
  const { password, keyHint } = repository;
  const reader = await openRepository(source, { password, ...(keyHint === undefined ? {} : { keyHint }) });
  const opened = await reader
    .openContent({ snapshotId, path: MACHINE_PATH }, { limits: { entries: 10, parts: PARTS_MAX }, signal })
    .catch((error: unknown) => {
      if (!(error instanceof EngineError) || error.code !== 'PATH_MISSING') throw error;
      throw new EngineError('PATH_MISSING', { message: 'The snapshot is no image of a machine.' });
    });
  if (opened === 'too_large' || opened.type !== 'file') {
    throw new EngineError('REPOSITORY_DAMAGED', { detail: `${MACHINE_PATH} is no file that can be read.` });
  }
  const { content } = opened;
  const { description, disks } = await openMachineIn(content);
  return {
    description,
    disks,
    read({ offset, sizeBytes }, from) {
      const first = offset + from;
      const last = offset + sizeBytes - 1;
      if (first > last) return nothing();
      if (restic === undefined || first > SKIPPED_MAX) return content.read({ first, last });
      const { engine, options } = restic;
      const bytes = dump(engine, repository, { snapshotId, path: MACHINE_PATH }, { ...options, signal });
      return between(bytes, first, last);
    },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array, void> {
  // A disk of no bytes, or one that is already complete.
}

/** Both ends are included. Leaving the loop ends restic. */
async function* between(
  bytes: AsyncIterable<unknown>,
  first: number,
  last: number,
): AsyncGenerator<Uint8Array, void> {
  let at = 0;
  for await (const piece of bytes) {
    if (!(piece instanceof Uint8Array)) continue;
    const end = at + piece.byteLength;
    if (end > first) yield piece.subarray(Math.max(0, first - at), Math.min(piece.byteLength, last + 1 - at));
    at = end;
    if (at > last) return;
  }
}

/** Writes a disk to its target, and verifies it by reading it back. */

interface DiskCopy {
  sizeBytes: number;
  /** From a byte of the disk to its end. */
  read: (first: number) => AsyncIterable<Uint8Array>;
  target: FileHandle;
  /** The target is a file whose unwritten parts read as zeros. */
  isSparse: boolean;
  journal: CopyJournal;
  extentBytes: number;
  signal: AbortSignal;
  onProgress: (phase: 'checking' | 'writing' | 'verifying', done: number) => void;
}

const PIECE = 64 * 1024;
const ZEROS = Buffer.alloc(PIECE);
const READ_BYTES = 1024 * 1024;

/**
 * Resumes an earlier run as far as the target still has its content.
 * @returns the hash of the whole disk as it was read back
 */
export async function copyDisk(copy: DiskCopy): Promise<string> {
  const { sizeBytes, target, isSparse, journal, extentBytes } = copy;
  await journal.keep(await countIntact(copy));
  const first = Math.min(journal.hashes.length * extentBytes, sizeBytes);
  if (isSparse) {
    // Truncates what a torn write has left behind the last good extent.
    await target.truncate(first);
    await target.truncate(sizeBytes);
  }
  await writeFrom(copy, first);
  await target.sync();
  return verify(copy);
}

/** How many extents of the journal the target really has. A power cut can lose data that was not synced. */
async function countIntact(copy: DiskCopy): Promise<number> {
  const { journal, sizeBytes, extentBytes } = copy;
  let count = 0;
  for (const expected of journal.hashes) {
    const at = count * extentBytes;
    const length = Math.min(extentBytes, sizeBytes - at);
    if (length <= 0) break;
    const hash = createHash('sha256');
    const read = await readInto(copy, at, length, (bytes) => hash.update(bytes));
    if (read !== length || hash.digest('hex') !== expected) break;
    count += 1;
    copy.onProgress('checking', at + length);
  }
  return count;
}

async function writeFrom(copy: DiskCopy, first: number): Promise<void> {
  const { sizeBytes, target, journal, extentBytes, signal } = copy;
  let at = first;
  let hash = createHash('sha256');
  const endExtent = async () => {
    await target.datasync();
    await journal.add(hash.digest('hex'));
    hash = createHash('sha256');
  };
  if (first < sizeBytes) {
    for await (const bytes of copy.read(first)) {
      signal.throwIfAborted();
      for (let from = 0; from < bytes.byteLength; ) {
        const room = extentBytes - (at % extentBytes);
        const piece = bytes.subarray(from, Math.min(bytes.byteLength, from + room));
        hash.update(piece);
        await writePieces(copy, piece, at);
        at += piece.byteLength;
        from += piece.byteLength;
        if (at % extentBytes === 0) await endExtent();
      }
      copy.onProgress('writing', at);
    }
  }
  if (at !== sizeBytes) {
    throw new AgentError('SOURCE_UNREADABLE', `The snapshot has ${at} of ${sizeBytes} bytes of the disk.`);
  }
  if (at % extentBytes !== 0 && first < sizeBytes) await endExtent();
}

/** Zeros are written only if the target may contain something else. */
async function writePieces({ target, isSparse }: DiskCopy, bytes: Uint8Array, at: number): Promise<void> {
  if (!isSparse) return writeAll(target, bytes, at);
  for (let from = 0; from < bytes.byteLength; from += PIECE) {
    const piece = bytes.subarray(from, Math.min(bytes.byteLength, from + PIECE));
    const isZero = Buffer.compare(piece, ZEROS.subarray(0, piece.byteLength)) === 0;
    if (!isZero) await writeAll(target, piece, at + from);
  }
}

async function writeAll(target: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    done += (await target.write(bytes, done, bytes.byteLength - done, at + done)).bytesWritten;
  }
}

async function verify(copy: DiskCopy): Promise<string> {
  const { journal, sizeBytes, extentBytes } = copy;
  const whole = createHash('sha256');
  for (const [index, expected] of journal.hashes.entries()) {
    const at = index * extentBytes;
    const hash = createHash('sha256');
    await readInto(copy, at, Math.min(extentBytes, sizeBytes - at), (bytes) => {
      hash.update(bytes);
      whole.update(bytes);
    });
    if (hash.digest('hex') !== expected) {
      throw new AgentError(
        'VERIFY_FAILED',
        `From byte ${at} on, the target does not return what was written to it. It may be broken.`,
      );
    }
    copy.onProgress('verifying', Math.min(sizeBytes, at + extentBytes));
  }
  return whole.digest('hex');
}

/** Returns how many bytes were read. */
async function readInto(
  { target, signal }: DiskCopy,
  at: number,
  length: number,
  onBytes: (bytes: Buffer) => void,
): Promise<number> {
  const read = readFrom(target);
  let done = 0;
  while (done < length) {
    signal.throwIfAborted();
    const bytes = await read(at + done, Math.min(READ_BYTES, length - done));
    if (bytes.length === 0) break;
    onBytes(bytes);
    done += bytes.length;
  }
  return done;
}

/** Journal of the extents that were written to the target, so that an interrupted copy can resume. */

/** The intended content of the target. A journal of any other content is not continued. */
const CopyIdentity = z.object({
  snapshotId: z.string(),
  disk: z.string(),
  sizeBytes: z.number(),
  target: z.string(),
  extentBytes: z.number().int().positive(),
});
type CopyIdentity = z.infer<typeof CopyIdentity>;

const Line = z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/) });

export class CopyJournal {
  readonly #file: string;
  readonly #identity: CopyIdentity;
  /** The hash of each extent, from the first on. */
  readonly hashes: string[];

  private constructor(file: string, identity: CopyIdentity, hashes: string[]) {
    this.#file = file;
    this.#identity = identity;
    this.hashes = hashes;
  }

  static async open(file: string, identity: CopyIdentity): Promise<CopyJournal> {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    const hashes = hashesOf((await readPrivateFile(file)) ?? '', identity);
    const journal = new CopyJournal(file, identity, hashes);
    await journal.keep(hashes.length);
    return journal;
  }

  /** Removes the extents from this one on. */
  async keep(count: number): Promise<void> {
    this.hashes.length = Math.min(count, this.hashes.length);
    const lines = [this.#identity, ...this.hashes.map((sha256) => ({ sha256 }))];
    const handle = await replaceFile(
      this.#file,
      Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join('')),
    );
    await handle.close();
  }

  async add(sha256: string): Promise<void> {
    await appendPrivate(this.#file, `${JSON.stringify({ sha256 })}\n`);
    this.hashes.push(sha256);
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true });
  }
}

/** Empty if the journal belongs to another copy. A torn line at its end is an extent that has to be copied again. */
function hashesOf(text: string, identity: CopyIdentity): string[] {
  const [first, ...lines] = text.split('\n');
  const found = CopyIdentity.safeParse(parsed(first ?? ''));
  const expected = JSON.stringify(CopyIdentity.parse(identity));
  if (!found.success || JSON.stringify(found.data) !== expected) return [];
  const hashes: string[] = [];
  for (const line of lines) {
    const entry = Line.safeParse(parsed(line));
    if (!entry.success) break;
    hashes.push(entry.data.sha256);
  }
  return hashes;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

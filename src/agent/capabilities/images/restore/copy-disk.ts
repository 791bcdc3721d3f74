import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { AgentError } from '../../../core/agent-error.ts';
import { readFrom } from '../../../os/partitions/read-at.ts';
import type { CopyJournal } from './copy-journal.ts';

/** Writes a disk to its target, and proves by reading it back that it is there. */

export interface DiskCopy {
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
 * Goes on with what an earlier run has written, as far as the target still has it.
 * @returns the hash of the whole disk, as it was read back
 */
export async function copyDisk(copy: DiskCopy): Promise<string> {
  const { sizeBytes, target, isSparse, journal, extentBytes } = copy;
  await journal.keep(await countIntact(copy));
  const first = Math.min(journal.hashes.length * extentBytes, sizeBytes);
  if (isSparse) {
    // What a torn write has left behind the last good extent is gone with it.
    await target.truncate(first);
    await target.truncate(sizeBytes);
  }
  await writeFrom(copy, first);
  await target.sync();
  return verify(copy);
}

/** How many extents of the journal the target has. A power cut can take what was never written to the disk itself. */
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

/** Zeros are written only where something else may stand. */
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
        `The target has not kept what was written to it, from byte ${at} on. It may be broken.`,
      );
    }
    copy.onProgress('verifying', Math.min(sizeBytes, at + extentBytes));
  }
  return whole.digest('hex');
}

/** Answers how many bytes there were. */
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

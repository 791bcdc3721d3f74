import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdtemp, open, rm, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { LogPart } from './log-files.ts';

/**
 * Opens one part of a log for reading at any place.
 *
 * A compressed part can only be read from its start, and entries are wanted from its end. Keeping the last N lines in
 * memory would do for the first page only, so it is unpacked into a temporary file that has no name any more: exact
 * for every page, flat in memory, and gone when it is closed, even by a crash.
 */
export interface OpenPart {
  handle: FileHandle;
  size: number;
  /** False where the part was too large to unpack whole. */
  complete: boolean;
  close(): Promise<void>;
}

const UNPACKED_MAX = 2 * 1024 ** 3;
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export async function openPart(
  part: LogPart,
  signal: AbortSignal,
  unpackedMax = UNPACKED_MAX,
): Promise<OpenPart> {
  const handle = await open(part.path, READ_FLAGS);
  if (!part.compressed) {
    const { size } = await handle.stat();
    return { handle, size, complete: true, close: () => handle.close() };
  }
  try {
    return await unpack(handle, signal, unpackedMax);
  } finally {
    await handle.close();
  }
}

async function unpack(packed: FileHandle, signal: AbortSignal, unpackedMax: number): Promise<OpenPart> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
  const spill = await open(path.join(folder, 'part'), 'wx+', 0o600);
  await rm(folder, { recursive: true, force: true });
  let size = 0;
  let complete = true;
  try {
    await pipeline(
      packed.createReadStream({ start: 0, autoClose: false }),
      createGunzip(),
      async (source: AsyncIterable<Buffer>) => {
        for await (const chunk of source) {
          if (size + chunk.length > unpackedMax) {
            complete = false;
            break;
          }
          await spill.write(chunk, 0, chunk.length, size);
          size += chunk.length;
        }
      },
      { signal },
    );
  } catch (error) {
    // A part that is cut off or being written still has its beginning; when aborted nobody reads it.
    complete = false;
    if (size === 0 && !signal.aborted) {
      await spill.close();
      throw error;
    }
  }
  return { handle: spill, size, complete, close: () => spill.close() };
}

const IDENTITY_BYTES = 4096;
const IDENTITY_LINE_MAX = 256;
const IDENTITY_BITS = 18;
const OFFSET_BITS = 35;

/**
 * The number that record ids of a part start from: 18 bits that stand for its first line, above 35 bits of offset
 * (32 GiB), together within 2^53. Rotating and compressing change a file's name and inode but not how it begins, so
 * an entry keeps its id wherever its log is moved.
 */
export async function idBaseOf(part: OpenPart): Promise<number> {
  const buffer = Buffer.alloc(IDENTITY_BYTES);
  const { bytesRead } = await part.handle.read(buffer, 0, IDENTITY_BYTES, 0);
  const lines = buffer.toString('latin1', 0, bytesRead).split('\n');
  const first = (lines.find((line) => line.trim() !== '') ?? '').slice(0, IDENTITY_LINE_MAX);
  const digest = createHash('sha256').update(first, 'latin1').digest();
  return (digest.readUInt32BE(0) >>> (32 - IDENTITY_BITS)) * 2 ** OFFSET_BITS;
}

export function splitRecordId(recordId: number): { idBase: number; offset: number } {
  const offset = recordId % 2 ** OFFSET_BITS;
  return { idBase: recordId - offset, offset };
}

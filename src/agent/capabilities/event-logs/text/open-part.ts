import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { openLogFile, type LogPart } from './log-files.ts';
import { noRoom, type UnpackSpace } from './unpack-space.ts';

/**
 * One part of a log, open for reading at any position.
 *
 * A compressed part can only be read from its start, but queries read from its end. Keeping the last lines in memory
 * would serve the first page only, so the part is unpacked into a file.
 */
export interface OpenPart {
  handle: FileHandle;
  size: number;
  /** False where the part was too large to be unpacked completely. */
  complete: boolean;
  close(): Promise<void>;
}

export async function openPart(part: LogPart, signal: AbortSignal, space: UnpackSpace): Promise<OpenPart> {
  const handle = await openLogFile(part);
  if (!part.compressed) {
    const { size } = await handle.stat();
    return { handle, size, complete: true, close: () => handle.close() };
  }
  try {
    return await unpack(handle, signal, space);
  } finally {
    await handle.close();
  }
}

async function unpack(packed: FileHandle, signal: AbortSignal, space: UnpackSpace): Promise<OpenPart> {
  const file = await space.open();
  let complete = true;
  let isFull = false;
  try {
    await pipeline(
      packed.createReadStream({ start: 0, autoClose: false }),
      createGunzip(),
      async (source: AsyncIterable<Buffer>) => {
        for await (const chunk of source) {
          isFull = !(await file.append(chunk));
          if (isFull) break;
        }
      },
      { signal },
    );
  } catch (error) {
    // The start of a part that is cut off, too large or being written can still be read.
    complete = false;
    if (file.size === 0 && !signal.aborted) {
      await file.close();
      throw isFull ? noRoom() : error;
    }
  }
  return { handle: file.handle, size: file.size, complete: complete && !isFull, close: () => file.close() };
}

const IDENTITY_BYTES = 4096;
const IDENTITY_LINE_MAX = 256;
const IDENTITY_BITS = 18;
const OFFSET_BITS = 35;

/**
 * The base of the record ids of a part: 18 bits from the hash of its first line, above 35 bits for the offset (32 GiB),
 * together within 2^53. Rotation and compression change the name and the inode of a file but not its first line, so each
 * entry keeps its id.
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

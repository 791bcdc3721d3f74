import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { parseHead } from './line-format.ts';
import { openLogFile, type LogPart } from './log-files.ts';
import { isZero } from './text-encoding.ts';
import { noRoom, type UnpackSpace } from './unpack-space.ts';
import { noUnpacker, type Unpack } from './unpackers.ts';

/**
 * One part of a log, open for reading at any position.
 *
 * A compressed part can only be read from its start, but queries read from its end. Keeping the last lines in memory
 * would serve the first page only, so the part is unpacked into a file.
 */
export interface OpenPart {
  handle: FileHandle;
  size: number;
  /** False where the part was too large to be unpacked completely, or its end is missing. */
  complete: boolean;
  close(): Promise<void>;
}

export interface PartTools {
  space: UnpackSpace;
  unpack: Unpack;
}

export async function openPart(
  part: LogPart,
  signal: AbortSignal,
  { space, unpack }: PartTools,
): Promise<OpenPart> {
  const handle = await openLogFile(part);
  if (part.packing === undefined) {
    const { size } = await handle.stat();
    return { handle, size, complete: true, close: () => handle.close() };
  }
  try {
    const content = await unpack(part.packing, handle, signal);
    if (content === undefined) throw noUnpacker(part.packing);
    return await unpackInto(space, content, signal);
  } finally {
    await handle.close();
  }
}

async function unpackInto(
  space: UnpackSpace,
  content: AsyncIterable<Buffer>,
  signal: AbortSignal,
): Promise<OpenPart> {
  const file = await space.open();
  let complete = true;
  let isFull = false;
  try {
    for await (const chunk of content) {
      isFull = !(await file.append(chunk));
      complete = !isFull && !signal.aborted;
      if (!complete) break;
    }
  } catch (error) {
    // The start of a part that is cut off, too large or being written can still be read.
    complete = false;
    if (file.size === 0 && !signal.aborted) {
      await file.close();
      throw isFull ? noRoom() : error;
    }
  }
  return { handle: file.handle, size: file.size, complete, close: () => file.close() };
}

const ZERO_BLOCK = 64 * 1024;

/** Where the content begins. A program that writes on after its file was emptied leaves a hole of zeros before it. */
export async function startOfContent({ handle, size }: Pick<OpenPart, 'handle' | 'size'>): Promise<number> {
  const buffer = Buffer.allocUnsafe(ZERO_BLOCK);
  for (let position = 0; position < size; ) {
    const { bytesRead } = await handle.read(buffer, 0, ZERO_BLOCK, position);
    if (bytesRead === 0) break;
    const block = buffer.subarray(0, bytesRead);
    if (!isZero(block)) return position + block.findIndex((byte) => byte !== 0);
    position += bytesRead;
  }
  return 0;
}

const IDENTITY_BYTES = 4096;
const IDENTITY_LINE_MAX = 256;
const IDENTITY_BITS = 18;
const OFFSET_BITS = 35;

/**
 * The base of the record ids of a part: 18 bits from the hash of its first line with a time, above 35 bits for the offset (32 GiB),
 * together within 2^53. Rotation and compression change the name and the inode of a file but not its first line, so each
 * entry keeps its id.
 */
export async function idBaseOf(handle: FileHandle, start: number): Promise<number> {
  const buffer = Buffer.alloc(IDENTITY_BYTES);
  const { bytesRead } = await handle.read(buffer, 0, IDENTITY_BYTES, start);
  const lines = buffer.toString('latin1', 0, bytesRead).split('\n');
  const complete = lines.slice(0, -1);
  const first =
    complete.find((line) => parseHead(line, 0) !== undefined) ??
    lines.find((line) => line.trim() !== '') ??
    '';
  const digest = createHash('sha256').update(first.slice(0, IDENTITY_LINE_MAX), 'latin1').digest();
  return (digest.readUInt32BE(0) >>> (32 - IDENTITY_BITS)) * 2 ** OFFSET_BITS;
}

export function splitRecordId(recordId: number): { idBase: number; offset: number } {
  const offset = recordId % 2 ** OFFSET_BITS;
  return { idBase: recordId - offset, offset };
}

import type { FileHandle } from 'node:fs/promises';
import { EngineError, type FileContent } from '../../../../../engine/index.ts';

const STEP = 64 * 1024;
const ZEROS = Buffer.alloc(STEP);

interface WriteOptions {
  signal: AbortSignal;
  onBytes: (bytes: number) => void;
}

/** Writes into an empty file, piece by piece. Where there are zeros it leaves holes. */
export async function writeContent(
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

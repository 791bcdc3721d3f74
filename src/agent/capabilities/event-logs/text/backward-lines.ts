import type { FileHandle } from 'node:fs/promises';

export interface RawLine {
  /** The position of the line in the file, in bytes. */
  offset: number;
  text: string;
}

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/** Longer lines are cut to this many bytes. */
export const LINE_BYTES_MAX = 128 * 1024;

/**
 * Reads the lines of a file from the last to the first, one chunk at a time. The memory that it needs does not depend on
 * the size of the file or its lines. Lines are decoded as a whole, so characters at the edges of chunks stay intact.
 */
export async function* linesBackward(
  handle: FileHandle,
  size: number,
  signal: AbortSignal,
): AsyncGenerator<RawLine[], void> {
  const buffer = Buffer.allocUnsafe(CHUNK);
  // The end of a line whose start has not been read yet.
  let rest: Buffer = Buffer.alloc(0);
  let position = size;
  let atEnd = true;
  while (position > 0 && !signal.aborted) {
    const length = Math.min(CHUNK, position);
    position -= length;
    const chunk = await readFully(handle, buffer, length, position);
    if (chunk === undefined) return;
    let end = chunk.length;
    // The line break at the end of the file does not start another line.
    if (atEnd && chunk[end - 1] === NEWLINE) end -= 1;
    atEnd = false;

    const lines: RawLine[] = [];
    for (;;) {
      const at = end === 0 ? -1 : chunk.lastIndexOf(NEWLINE, end - 1);
      if (at === -1) break;
      lines.push({ offset: position + at + 1, text: lineText(chunk.subarray(at + 1, end), rest) });
      rest = Buffer.alloc(0);
      end = at;
    }
    rest = Buffer.concat([chunk.subarray(0, end), rest]);
    if (rest.length > LINE_BYTES_MAX) rest = Buffer.from(rest.subarray(0, LINE_BYTES_MAX + 4));
    if (position === 0) lines.push({ offset: 0, text: lineText(rest, Buffer.alloc(0)) });
    if (lines.length > 0) yield lines;
  }
}

/** `undefined` where the file has become shorter meanwhile. */
async function readFully(handle: FileHandle, buffer: Buffer, length: number, position: number) {
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) return undefined;
    filled += bytesRead;
  }
  return buffer.subarray(0, length);
}

function lineText(start: Buffer, rest: Buffer): string {
  const whole = rest.length === 0 ? start : Buffer.concat([start, rest]);
  return decodeLine(whole);
}

export function decodeLine(bytes: Buffer): string {
  let end = Math.min(bytes.length, LINE_BYTES_MAX);
  const isCut = end < bytes.length;
  // The cut must not split a character, so it moves back to the start of one.
  if (isCut) while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  else if (end > 0 && bytes[end - 1] === 13) end -= 1;
  return bytes.toString('utf8', 0, end);
}

import type { FileHandle } from 'node:fs/promises';

/** Reads bytes of a disk, or of what stands for one. Fewer than asked for: it has ended. */
export type ReadAt = (offset: number, length: number) => Promise<Buffer>;

export function readFrom(handle: FileHandle): ReadAt {
  return async (offset, length) => {
    const bytes = Buffer.alloc(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await handle.read(bytes, done, length - done, offset + done);
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return bytes.subarray(0, done);
  };
}

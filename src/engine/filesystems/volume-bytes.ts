import type { FileContent } from '../repository/file-content.ts';
import { EngineError } from '../engine-error.ts';

export const brokenFileSystem = (detail: string) => new EngineError('FILE_SYSTEM_DAMAGED', { detail });

/** @param why  a sentence for people */
export const unsupportedFileSystem = (why: string) =>
  new EngineError('FILE_SYSTEM_UNSUPPORTED', {
    message: `${why} Restore the disk to read its files.`,
  });

/** The bytes of a volume within a larger content, for a file system reader. */
export interface VolumeBytes {
  length: number;
  /** Exactly this many bytes; `undefined` if the volume ends before. For small reads, which are cached. */
  readAt(offset: number, length: number): Promise<Buffer | undefined>;
  /** The same in pieces, for large reads, which are not cached. */
  stream(offset: number, length: number): AsyncIterable<Buffer>;
}

/** File system structures lie close together, and each read unpacks a megabyte or so. */
const PAGE = 256 * 1024;
const PAGES_MAX = 32;

/** @param place  the location of the volume; it is cut off at the end of the content */
export function volumeOf(content: FileContent, place: { offset: number; sizeBytes: number }): VolumeBytes {
  const end = Math.min(content.length, place.offset + place.sizeBytes);
  const length = Math.max(0, end - place.offset);
  const pages = new Map<number, Promise<Buffer>>();

  const stream = (offset: number, wanted: number) =>
    content.read({ first: place.offset + offset, last: place.offset + offset + wanted - 1 });

  const pageAt = (number: number): Promise<Buffer> => {
    const kept = pages.get(number);
    const start = number * PAGE;
    const page = kept ?? collect(stream(start, Math.min(PAGE, length - start)));
    // Least recently used pages are dropped first. A page that could not be read is requested again.
    pages.delete(number);
    pages.set(number, page);
    if (kept === undefined) {
      page.catch(() => pages.delete(number));
      for (const oldest of pages.keys()) {
        if (pages.size <= PAGES_MAX) break;
        pages.delete(oldest);
      }
    }
    return page;
  };

  return {
    length,
    stream,
    async readAt(offset, wanted) {
      if (offset < 0 || wanted < 0 || offset + wanted > length) return undefined;
      const bytes = Buffer.alloc(wanted);
      for (let done = 0; done < wanted; ) {
        const at = offset + done;
        const page = await pageAt(Math.floor(at / PAGE));
        const copied = page.copy(bytes, done, at % PAGE);
        if (copied === 0) return undefined;
        done += copied;
      }
      return bytes;
    },
  };
}

async function collect(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

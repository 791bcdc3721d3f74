import type { FileContent } from '../reader/file-content.ts';

/** The bytes of one volume within a larger content, for a reader of its file system. */
export interface VolumeBytes {
  length: number;
  /** Exactly this many bytes; `undefined` where the volume does not have them. For small pieces, which are kept. */
  readAt(offset: number, length: number): Promise<Buffer | undefined>;
  /** The same in pieces, for much content, of which nothing is kept. */
  stream(offset: number, length: number): AsyncIterable<Buffer>;
}

/** The structures of file systems lie close to each other, and each read unpacks a part of a megabyte or more. */
const PAGE = 256 * 1024;
const PAGES_MAX = 32;

/** @param place  where the volume lies; it is cut off at the end of the content */
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
    // The page that was used last is the last to go. One that could not be read is asked for again.
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

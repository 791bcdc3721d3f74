import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { ArchiveError, BLOCK, paddingAfter, readHeader, type TarEntry } from './tar-header.ts';

/** An entry of an archive. Its body has to be read before the next entry; what was not read is passed over. */
export interface ReadEntry extends TarEntry {
  body: AsyncGenerator<Buffer>;
  /** Of the whole body, once it was read. */
  sha256(): string;
}

const READ_BYTES = 1 << 20;

/** Reads the entries in their order, once. Throws `ArchiveError` where the file is cut off or is not one of ours. */
export async function* readArchive(file: string): AsyncGenerator<ReadEntry> {
  const source = new ByteSource(file);
  try {
    for (;;) {
      const header = readHeader(await source.take(BLOCK, 'before its end'));
      if (header === undefined) break;
      const body = new Body(source, header);
      yield { ...header, body: body.pieces(), sha256: () => body.sha256() };
      await body.passOver();
      await source.take(paddingAfter(header.size), `after ${header.name}`);
    }
    await source.take(BLOCK, 'before its end');
    if (!(await source.isAtEnd())) throw new ArchiveError('The file goes on after its end: it was changed.');
  } finally {
    source.close();
  }
}

/** A whole entry in memory, for those that are small. */
export async function bytesOf(entry: ReadEntry, limit: number): Promise<Buffer> {
  if (entry.size > limit) throw new ArchiveError(`${entry.name} is larger than it can be.`);
  const pieces: Buffer[] = [];
  for await (const piece of entry.body) pieces.push(piece);
  return Buffer.concat(pieces);
}

class Body {
  readonly #source: ByteSource;
  readonly #name: string;
  readonly #hash = createHash('sha256');
  #rest: number;
  #digest: string | undefined;

  constructor(source: ByteSource, { name, size }: TarEntry) {
    this.#source = source;
    this.#name = name;
    this.#rest = size;
  }

  async *pieces(): AsyncGenerator<Buffer> {
    while (this.#rest > 0) {
      const piece = await this.#source.some(this.#rest, `in the middle of ${this.#name}`);
      this.#rest -= piece.length;
      this.#hash.update(piece);
      yield piece;
    }
  }

  async passOver(): Promise<void> {
    for await (const _piece of this.pieces());
  }

  sha256(): string {
    return (this.#digest ??= this.#hash.digest('hex'));
  }
}

class ByteSource {
  readonly #stream;
  readonly #pieces: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(file: string) {
    this.#stream = createReadStream(file, { highWaterMark: READ_BYTES });
    this.#pieces = this.#stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  close(): void {
    this.#stream.destroy();
  }

  /** At least one byte and at most `limit`. */
  async some(limit: number, where: string): Promise<Buffer> {
    if (await this.isAtEnd()) throw new ArchiveError(`The file is cut off: it ends ${where}.`);
    const piece = this.#rest.subarray(0, limit);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async take(bytes: number, where: string): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let missing = bytes; missing > 0; ) {
      const piece = await this.some(missing, where);
      missing -= piece.length;
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const next = await this.#pieces.next();
      if (next.done === true) return true;
      this.#rest = next.value;
    }
    return false;
  }
}

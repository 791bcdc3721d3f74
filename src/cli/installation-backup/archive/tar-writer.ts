import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { ArchiveError, BLOCK, paddingAfter, tarHeader } from './tar-header.ts';

/** What was written of an entry. */
export interface WrittenPart {
  name: string;
  size: number;
  sha256: string;
}

/** Writes the entries of an archive one after the other; memory does not grow with them. */
export class TarWriter {
  readonly #file: FileHandle;
  #bytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(name: string, content: Buffer): Promise<WrittenPart> {
    return this.addStream(name, content.length, [content]);
  }

  /** @param size  how many bytes come; an entry begins with it */
  async addStream(
    name: string,
    size: number,
    pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  ): Promise<WrittenPart> {
    await this.#write(tarHeader({ name, size }));
    const hash = createHash('sha256');
    let written = 0;
    for await (const piece of pieces) {
      written += piece.length;
      if (written > size) break;
      hash.update(piece);
      await this.#write(piece);
    }
    if (written !== size) throw new ArchiveError(`${name} changed while it was read.`);
    await this.#write(Buffer.alloc(paddingAfter(size)));
    return { name, size, sha256: hash.digest('hex') };
  }

  async end(): Promise<void> {
    await this.#write(Buffer.alloc(2 * BLOCK));
  }

  async #write(bytes: Buffer): Promise<void> {
    let at = 0;
    // A full disk may take a part of what it is given before it refuses.
    while (at < bytes.length) {
      const { bytesWritten } = await this.#file.write(bytes, at);
      at += bytesWritten;
    }
    this.#bytes += bytes.length;
  }
}

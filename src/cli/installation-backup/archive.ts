import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { encodeTarHeader, readTar, shownName, TAR_BLOCK, TAR_END, tarPaddingOf } from '../../engine/index.ts';

/** The file of a backup of an installation: a tar archive of plain files, written and read in order. */

export class ArchiveError extends Error {}

const READ_BYTES = 1 << 20;

/** The size and hash of a written entry. */
export interface WrittenPart {
  name: string;
  size: number;
  sha256: string;
}

/** Writes the entries of an archive one after the other, in constant memory. */
export class ArchiveWriter {
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

  /** @param size  the length of the content, which is part of the header */
  async addStream(
    name: string,
    size: number,
    pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  ): Promise<WrittenPart> {
    const header = encodeTarHeader({ path: name, type: 'file', size });
    if (header.length > TAR_BLOCK) throw new ArchiveError(`The name ${name} does not fit into the backup.`);
    await this.#write(header);
    const hash = createHash('sha256');
    let written = 0;
    for await (const piece of pieces) {
      written += piece.length;
      if (written > size) break;
      hash.update(piece);
      await this.#write(piece);
    }
    if (written !== size) throw new ArchiveError(`${name} changed while it was read.`);
    await this.#write(Buffer.alloc(tarPaddingOf(size)));
    return { name, size, sha256: hash.digest('hex') };
  }

  async end(): Promise<void> {
    await this.#write(TAR_END);
  }

  async #write(bytes: Buffer): Promise<void> {
    let at = 0;
    // On a full disk, a part of the bytes may be written before the error.
    while (at < bytes.length) {
      const { bytesWritten } = await this.#file.write(bytes, at);
      at += bytesWritten;
    }
    this.#bytes += bytes.length;
  }
}

/** An entry of an archive. Its body must be read before the next entry; unread bytes are skipped. */
export interface ReadEntry {
  name: string;
  size: number;
  body: AsyncIterable<Buffer>;
  /** Hash of the bytes of the body that were read so far. */
  sha256(): string;
}

const damaged = (sentence: string) => new ArchiveError(`The file is no whole backup. ${sentence}`);

/** Reads the entries in their order, once. Throws an `ArchiveError` for a file that is damaged or not one of ours. */
export async function* readArchive(file: string): AsyncGenerator<ReadEntry> {
  const source = createReadStream(file, { highWaterMark: READ_BYTES });
  try {
    for await (const { name, type, size, content } of readTar(source, damaged)) {
      if (type !== 'file') {
        throw new ArchiveError(`The file is not a backup of Muster: ${shownName(name)} is a folder.`);
      }
      const hash = createHash('sha256');
      let digest: string | undefined;
      async function* body() {
        for await (const piece of content) {
          hash.update(piece);
          yield piece;
        }
      }
      yield { name, size, body: body(), sha256: () => (digest ??= hash.digest('hex')) };
    }
  } finally {
    source.destroy();
  }
}

/** A whole entry in memory, for those that are small. */
export async function bytesOf(entry: ReadEntry, limit: number): Promise<Buffer> {
  if (entry.size > limit) throw new ArchiveError(`${entry.name} is larger than it can be.`);
  const pieces: Buffer[] = [];
  for await (const piece of entry.body) pieces.push(piece);
  return Buffer.concat(pieces);
}

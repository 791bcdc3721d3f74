import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { LoadedTable } from '../../platform/db/dump/load-database.ts';
import { DATABASE_ENTRY, type Manifest, PIECE_MAX } from './archive/manifest.ts';
import { ArchiveError } from './archive/tar-header.ts';
import { bytesOf, readArchive, type ReadEntry } from './archive/tar-reader.ts';

const unpack = promisify(gunzip);

/** The rows of a backup, table after table. What is handed on was compared with the manifest once more. */
export async function* tablesOf(file: string, manifest: Manifest): AsyncGenerator<LoadedTable> {
  const tables = new Map(manifest.tables.map((table) => [table.name, table]));
  const pieces = new Pieces(file, manifest);
  try {
    await pieces.advance();
    while (pieces.table !== undefined) {
      const table = tables.get(pieces.table);
      if (table === undefined) {
        throw new ArchiveError(`The backup has rows of ${pieces.table}, which its manifest lacks.`);
      }
      yield { ...table, pieces: pieces.rowsOf(table.name) };
    }
  } finally {
    await pieces.close();
  }
}

/** The entries of the database, in the order of the archive. */
class Pieces {
  readonly #entries: AsyncGenerator<ReadEntry>;
  readonly #sums: ReadonlyMap<string, string>;
  #next: { entry: ReadEntry; table: string } | undefined;

  constructor(file: string, { parts }: Manifest) {
    this.#entries = readArchive(file);
    this.#sums = new Map(parts.map(({ name, sha256 }) => [name, sha256]));
  }

  /** The table of the next piece; `undefined` after the last one. */
  get table(): string | undefined {
    return this.#next?.table;
  }

  async advance(): Promise<void> {
    for (;;) {
      const { value, done } = await this.#entries.next();
      const [, table] = done === true ? [] : (DATABASE_ENTRY.exec(value.name) ?? []);
      this.#next = done === true || table === undefined ? undefined : { entry: value, table };
      if (done === true || table !== undefined) return;
    }
  }

  async *rowsOf(table: string): AsyncGenerator<Buffer> {
    while (this.#next?.table === table) {
      const { entry } = this.#next;
      const packed = await bytesOf(entry, PIECE_MAX);
      if (entry.sha256() !== this.#sums.get(entry.name)) {
        throw new ArchiveError(`${entry.name} is not what was verified: the file was changed meanwhile.`);
      }
      yield await unpack(packed);
      await this.advance();
    }
  }

  async close(): Promise<void> {
    await this.#entries.return(undefined);
  }
}

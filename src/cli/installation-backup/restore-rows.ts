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
  const sums = new Map(manifest.parts.map(({ name, sha256 }) => [name, sha256]));
  const entries = readArchive(file);
  try {
    let next = await nextPiece(entries);
    while (next !== undefined) {
      const { table: name } = next;
      const table = tables.get(name);
      if (table === undefined) {
        throw new ArchiveError(`The backup has rows of ${name}, which its manifest lacks.`);
      }
      const pieces = async function* (): AsyncGenerator<Buffer> {
        for (; next?.table === name; next = await nextPiece(entries)) {
          const packed = await bytesOf(next.entry, PIECE_MAX);
          if (next.entry.sha256() !== sums.get(next.entry.name)) {
            throw new ArchiveError(
              `${next.entry.name} is not what was verified: the file was changed meanwhile.`,
            );
          }
          yield await unpack(packed);
        }
      };
      yield { ...table, pieces: pieces() };
    }
  } finally {
    await entries.return(undefined);
  }
}

interface Piece {
  entry: ReadEntry;
  table: string;
}

async function nextPiece(entries: AsyncGenerator<ReadEntry>): Promise<Piece | undefined> {
  for (;;) {
    const { value, done } = await entries.next();
    if (done === true) return undefined;
    const [, table] = DATABASE_ENTRY.exec(value.name) ?? [];
    if (table !== undefined) return { entry: value, table };
  }
}

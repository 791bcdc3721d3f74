import { copyOut } from '../bulk/copy-out.ts';
import { openSession } from '../pool.ts';
import { type Tx, withSystem } from '../transaction.ts';
import { type DumpTable, quoted, quotedList, readTables } from './catalogue.ts';

/** One moment of a database, in which all tables are read. */
export interface DatabaseSnapshot {
  /** Such as `15.10`. */
  postgres: string;
  tables: DumpTable[];
  /** The rows of a table in the text format of COPY, in pieces that end with a row. */
  rows(table: DumpTable, onPiece: (piece: Buffer, rows: number) => Promise<void>): Promise<void>;
}

/** A piece is handed on when it has so many bytes. */
const PIECE_BYTES = 4 << 20;

/**
 * Reads the database with the rights of the serving role, across tenants, while servers use it. Nothing of it waits for
 * them, nor they for it; like any long reading, it keeps the database from reclaiming space meanwhile.
 */
export async function withSnapshot<T>(
  appUrl: string,
  work: (snapshot: DatabaseSnapshot, tx: Tx) => Promise<T>,
): Promise<T> {
  const db = openSession(appUrl, 'muster-backup');
  try {
    return await withSystem(db, 'back up the database', async (tx) => {
      await tx.raw(
        `set transaction isolation level repeatable read, read only;
        set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;
        set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres';
        set local bytea_output = 'hex'; set local extra_float_digits = 3`,
      );
      const { rows } = await tx.raw(`select current_setting('server_version') as postgres`);
      const tables = await readTables(tx);
      return work(
        {
          postgres: String(rows[0]?.postgres),
          tables,
          rows: (table, onPiece) => readRows(tx, table, onPiece),
        },
        tx,
      );
    });
  } finally {
    await db.destroy();
  }
}

async function readRows(
  tx: Tx,
  { name, columns }: DumpTable,
  onPiece: (piece: Buffer, rows: number) => Promise<void>,
): Promise<void> {
  let lines: Buffer[] = [];
  let bytes = 0;
  const take = (): [Buffer, number] => {
    const piece: [Buffer, number] = [Buffer.concat(lines, bytes), lines.length];
    lines = [];
    bytes = 0;
    return piece;
  };
  await copyOut(tx, `select ${quotedList(columns)} from ${quoted(name)}`, (line) => {
    const kept = Buffer.allocUnsafe(line.length + 1);
    line.copy(kept);
    kept[line.length] = 0x0a;
    lines.push(kept);
    bytes += kept.length;
    return bytes < PIECE_BYTES ? undefined : onPiece(...take());
  });
  if (lines.length > 0) await onPiece(...take());
}

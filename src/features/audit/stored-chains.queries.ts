import pg from 'pg';
import { copyOut } from '../../../platform/db/bulk/copy-out.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import type { SealedEntry } from '../chain/chain.ts';
import type { Checkpoint } from '../chain/checkpoint.ts';
import { COPY_COLUMNS, entryFromCopyRow } from './copy-row.ts';

/** Reads chains from the database, in the form in which they were sealed. */

/** Starts a consistent snapshot with a fixed time format. Must be the first statement of the transaction. */
export async function readConsistently(tx: Tx): Promise<void> {
  await tx.raw(
    `set transaction isolation level repeatable read, read only;
    set local timezone = 'UTC'; set local datestyle = 'ISO'; set local statement_timeout = 0;
    set local idle_in_transaction_session_timeout = 0`,
  );
}

/** A range of positions in a chain, both ends included. */
export interface Span {
  from: number;
  through: number;
}

/** Streams the entries of a chain, or of a span of it, in the order of `seq`. */
export async function readEntries(
  tx: Tx,
  chainId: string,
  onEntry: (entry: SealedEntry) => void | Promise<void>,
  span?: Span,
): Promise<void> {
  await readEntryLines(tx, chainId, (line) => onEntry(entryFromCopyRow(line)), span);
}

/** The same as raw rows, as `entryFromCopyRow` parses them. */
export async function readEntryLines(
  tx: Tx,
  chainId: string,
  onLine: (line: Buffer) => void | Promise<void>,
  span?: Span,
): Promise<void> {
  // COPY does not accept parameters.
  const some = span === undefined ? '' : `and seq between ${BigInt(span.from)} and ${BigInt(span.through)}`;
  const literal = pg.escapeLiteral(chainId);
  await copyOut(
    tx,
    `select ${COPY_COLUMNS} from audit_logs where chain_id = ${literal} ${some} order by seq`,
    onLine,
  );
}

interface SignedRow {
  chain_id: string;
  kind?: Checkpoint['kind'];
  number: string;
  seq: string;
  checksum: string;
  previous: string | null;
  at: Date;
  key_id: string;
  signature: string;
}

const checkpointOf = (row: SignedRow): Checkpoint => ({
  chainId: row.chain_id,
  kind: row.kind ?? 'head',
  number: Number(row.number),
  seq: Number(row.seq),
  checksum: row.checksum,
  previous: row.previous,
  at: row.at.toISOString(),
  keyId: row.key_id,
  signature: row.signature,
});

export async function readHead(tx: Tx, chainId: string): Promise<Checkpoint | undefined> {
  const row: SignedRow | undefined = await tx('audit_chain_heads').where('chain_id', chainId).first();
  return row === undefined ? undefined : checkpointOf(row);
}

/** The heads of all chains, each with the checksum of the entry that it names; null where that entry was pruned. */
export async function readHeads(tx: Tx): Promise<{ head: Checkpoint; lastChecksum: string | null }[]> {
  const { rows } = await tx.raw(
    `select h.*, (select l.checksum from audit_logs l where l.chain_id = h.chain_id and l.seq = h.seq) as last_checksum
    from audit_chain_heads h order by h.chain_id`,
  );
  return (rows as (SignedRow & { last_checksum: string | null })[]).map((row) => ({
    head: checkpointOf(row),
    lastChecksum: row.last_checksum,
  }));
}

export async function readCheckpoints(tx: Tx, chainId: string): Promise<Checkpoint[]> {
  const rows: SignedRow[] = await tx('audit_checkpoints').where('chain_id', chainId).orderBy('number');
  return rows.map(checkpointOf);
}

/** The newest stored checkpoint. */
export async function readLastCheckpoint(tx: Tx, chainId: string): Promise<Checkpoint | undefined> {
  const row: SignedRow | undefined = await tx('audit_checkpoints')
    .where('chain_id', chainId)
    .orderBy('number', 'desc')
    .first();
  return row === undefined ? undefined : checkpointOf(row);
}

/** The latest cut and the checkpoints within the span: enough to verify the span alone. */
export async function readCheckpointsOf(tx: Tx, chainId: string, span: Span): Promise<Checkpoint[]> {
  const rows: SignedRow[] = await tx('audit_checkpoints')
    .where('chain_id', chainId)
    .whereRaw(
      `(seq between ? and ?
        or number = (select max(number) from audit_checkpoints where chain_id = ? and kind = 'cut'))`,
      [span.from, span.through, chainId],
    )
    .orderBy('number');
  return rows.map(checkpointOf);
}

/** The ids of all chains of which anything is stored, sorted. */
export async function readChainIds(tx: Tx): Promise<string[]> {
  const { rows } = await tx.raw(
    `select chain_id from audit_chain_heads union select chain_id from audit_checkpoints
    union select chain_id from audit_logs order by 1`,
  );
  return (rows as { chain_id: string }[]).map((row) => row.chain_id);
}

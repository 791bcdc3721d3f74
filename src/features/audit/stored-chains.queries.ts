import pg from 'pg';
import { copyOut, fieldsOf } from '../../platform/db/copy.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import type { SealedEntry, Checkpoint } from './chain.ts';

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

/** The heads of all chains, each with the checksum of the entry that it names; null if that entry was pruned. */
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

/** SQL: the columns of `audit_logs` that `entryFromCopyRow` reads, in order. */
const COPY_COLUMNS = `id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action, resource_type,
  resource_id, resource_name, details, ip_address, user_agent, result, error_message, seq, checksum, prev_checksum`;

/** Parses an entry, in the form in which it was sealed, from a row of COPY output with these columns. */
export function entryFromCopyRow(line: Buffer): SealedEntry {
  const f = fieldsOf(line);
  return {
    id: f[0] ?? '',
    orgId: f[1] ?? null,
    partnerId: f[2] ?? null,
    timestamp: isoTime(f[3] ?? ''),
    actorType: f[4] ?? '',
    actorId: f[5] ?? '',
    actorEmail: f[6] ?? null,
    action: f[7] ?? '',
    resourceType: f[8] ?? '',
    resourceId: f[9] ?? null,
    resourceName: f[10] ?? null,
    details: f[11] === '{}' ? {} : JSON.parse(f[11] ?? 'null'),
    ipAddress: f[12] ?? null,
    userAgent: f[13] ?? null,
    result: f[14] ?? '',
    errorMessage: f[15] ?? null,
    seq: Number(f[16] ?? 0),
    checksum: f[17] ?? '',
    prevChecksum: f[18] ?? null,
  };
}

/** From `2026-11-21 08:44:23.4+00`, as Postgres writes it, to `2026-11-21T08:44:23.400Z`. */
export function isoTime(text: string): string {
  const fraction = text.slice(20, -3).padEnd(3, '0');
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text[19] === '.' ? fraction : '000'}Z`;
}

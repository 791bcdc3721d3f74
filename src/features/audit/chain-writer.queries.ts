import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';

import { withSystem, type Tx, runPrepared } from '../../platform/db/transaction.ts';
import {
  CHAIN_START,
  type ChainEnd,
  chainOf,
  seal,
  type SealedEntry,
  type UnsealedEntry,
  type Checkpoint,
  checkpointHash,
  signCheckpoint,
} from './chain.ts';
import { type Names, insertActorsSql, type NameIndexCache, insertResourcesSql } from './name-index.ts';
import { LOCK_NAMES_SHARED } from './name-index.queries.ts';
import type { SigningKeys } from './signing-keys.ts';

/** SQL: the key of the advisory lock that serializes writers of a chain. `chainId` is an SQL expression. */
export const chainLock = (chainId: string) => `hashtextextended('audit:' || ${chainId}, 0)`;

/** A head is kept as a checkpoint after this many entries, or with the first batch after this time. */
const KEEP_AFTER_ENTRIES = 1000;
const KEEP_AFTER_MS = 10 * 60_000;

export interface Batch {
  entries: SealedEntry[];
  kept: Checkpoint[];
}

export interface BatchChoice {
  limit: number;
  /** Chains to leave out because they failed recently. */
  without: readonly string[];
  /** Seal only this chain. */
  only?: string;
}

/**
 * Moves the oldest entries of the outbox into their chains in one transaction, which holds the locks of those chains.
 * The returned batch is committed.
 */
export async function sealBatch(
  db: Db,
  keys: SigningKeys,
  names: NameIndexCache,
  choice: BatchChoice,
): Promise<Batch> {
  const { newNames, ...batch } = await sealSome(db, keys, names, choice);
  names.markIndexed(newNames);
  return batch;
}

async function sealSome(
  db: Db,
  keys: SigningKeys,
  names: NameIndexCache,
  choice: BatchChoice,
): Promise<Batch & { newNames: Names }> {
  return withSystem(db, 'seal audit entries', async (tx) => {
    const { limit, without, only } = choice;
    const locked = await runPrepared<LockedRow>(tx, LOCK, [limit, without, only ?? null]);
    const [first] = locked;
    if (first === undefined) return { entries: [], kept: [], newNames: names.unindexed([]) };
    const chains = locked.map(({ chainId }) => chainId);
    // A separate statement after the locks, so that it sees everything the previous lock holder committed.
    const waiting = await runPrepared<WaitingRow>(tx, WAITING, [chains, first.through, limit]);
    const ends = await chainEnds(tx, chains);

    const placed = place(waiting, ends.of);
    const key = await keys.privateKey(tx, ends.currentKeyId);
    const at = clock.date().toISOString();
    const heads = [...placed.ends].map(([chainId, end]) => {
      const last = ends.of.get(chainId)?.kept;
      return signCheckpoint(
        {
          chainId,
          kind: 'head',
          number: (last?.number ?? 0) + 1,
          ...end,
          previous: last === undefined ? null : checkpointHash(last),
          at,
        },
        key,
      );
    });
    const kept = heads.filter((head) => isDue(head, ends.of.get(head.chainId)?.kept));
    const newNames = names.unindexed(placed.entries);
    if (newNames.resources.length > 0) await runPrepared(tx, LOCK_NAMES_SHARED, []);
    await move(tx, placed, { heads, kept, newNames });
    return { entries: placed.entries, kept, newNames };
  });
}

function isDue(head: Checkpoint, last: Checkpoint | undefined): boolean {
  if (last === undefined) return true;
  return (
    head.seq - last.seq >= KEEP_AFTER_ENTRIES || Date.parse(head.at) - Date.parse(last.at) >= KEEP_AFTER_MS
  );
}

interface Placed {
  positions: string[];
  entries: SealedEntry[];
  /** The new end of each chain that received entries. */
  ends: Map<string, { seq: number; checksum: string }>;
}

/** The pure part: appends each entry to its chain, in the order of the outbox. */
function place(waiting: readonly WaitingRow[], endsBefore: ReadonlyMap<string, Known>): Placed {
  const placed: Placed = { positions: [], entries: [], ends: new Map() };
  for (const { position, timestamp, ...rest } of waiting) {
    const entry: UnsealedEntry = { ...rest, timestamp: timestamp.toISOString() };
    const chainId = chainOf(entry);
    const end: ChainEnd = placed.ends.get(chainId) ?? endsBefore.get(chainId)?.end ?? CHAIN_START;
    for (const sealed of seal([entry], end)) {
      placed.positions.push(position);
      placed.entries.push(sealed);
      placed.ends.set(chainId, { seq: sealed.seq, checksum: sealed.checksum });
    }
  }
  return placed;
}

type WaitingRow = Omit<UnsealedEntry, 'timestamp'> & { position: string; timestamp: Date };

interface LockedRow {
  chainId: string;
  /** The last outbox position of the batch. Without this bound, Postgres sorts the whole queue for every batch. */
  through: string;
}

// Locks are taken in a fixed order, so that two servers cannot deadlock.
const LOCK = {
  name: 'audit-lock',
  text: `
    with waiting as (
      select chain_id, position from audit_outbox
      where not chain_id = any($2::uuid[]) and ($3::uuid is null or chain_id = $3::uuid)
      order by position limit $1::int
    )
    select chain_id as "chainId", (select max(position) from waiting) as through, pg_advisory_xact_lock(key) from (
      select distinct ${chainLock('chain_id')} as key, chain_id from waiting order by 1, 2
    ) chains`,
};

const WAITING = {
  name: 'audit-waiting',
  text: `
    select position, id, org_id as "orgId", partner_id as "partnerId", "timestamp", actor_type as "actorType",
      actor_id as "actorId", actor_email as "actorEmail", action, resource_type as "resourceType",
      resource_id as "resourceId", resource_name as "resourceName", details, ip_address as "ipAddress",
      user_agent as "userAgent", result, error_message as "errorMessage"
    from audit_outbox where chain_id = any($1::uuid[]) and position <= $2::bigint order by position limit $3::int`,
};

interface Known {
  end: ChainEnd;
  kept: Checkpoint | undefined;
}

async function chainEnds(
  tx: Tx,
  chains: readonly string[],
): Promise<{ currentKeyId: string; of: Map<string, Known> }> {
  const rows = await runPrepared<EndRow>(tx, ENDS, [chains]);
  const currentKeyId = rows[0]?.currentKeyId;
  if (currentKeyId === undefined) throw new Error('the audit trail has no active signing key');
  const of = new Map<string, Known>();
  for (const { chainId, seq, checksum, kept } of rows) {
    if (chainId === null) continue;
    of.set(chainId, {
      end: { seq: Number(seq), checksum },
      kept: kept === null ? undefined : { ...kept, at: new Date(kept.at).toISOString() },
    });
  }
  return { currentKeyId, of };
}

interface EndRow {
  currentKeyId: string;
  chainId: string | null;
  seq: string | null;
  checksum: string | null;
  kept: Checkpoint | null;
}

const ENDS = {
  name: 'audit-ends',
  text: `
    select k.id as "currentKeyId", h.chain_id as "chainId", h.seq, h.checksum, c.kept
    from audit_signing_keys k
    left join audit_chain_heads h on h.chain_id = any($1::uuid[])
    left join lateral (
      select jsonb_build_object('chainId', chain_id, 'kind', kind, 'number', number, 'seq', seq, 'checksum', checksum,
        'previous', previous, 'at', at, 'keyId', key_id, 'signature', signature) as kept
      from audit_checkpoints where chain_id = h.chain_id order by number desc limit 1
    ) c on true
    where k.retired_at is null`,
};

async function move(
  tx: Tx,
  { positions, entries }: Placed,
  beside: { heads: readonly Checkpoint[]; kept: readonly Checkpoint[]; newNames: Names },
): Promise<void> {
  const rows = await runPrepared<{ moved: string }>(tx, MOVE, [
    plainArray(positions),
    plainArray(entries.map(({ seq }) => seq)),
    plainArray(entries.map(({ checksum }) => checksum)),
    plainArray(entries.map(({ prevChecksum }) => prevChecksum)),
    JSON.stringify(beside.heads),
    JSON.stringify(beside.kept),
    JSON.stringify(beside.newNames.actors),
    JSON.stringify(beside.newNames.resources),
  ]);
  if (Number(rows[0]?.moved) !== positions.length) {
    throw new Error(`only ${rows[0]?.moved} of ${positions.length} audit entries could be moved`);
  }
}

/** A Postgres array literal of numbers and hex digits. The driver's own conversion also escapes, which is slower. */
const plainArray = (values: readonly (string | number | null)[]) =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`;

const SIGNED = `"chainId" uuid, kind text, number bigint, seq bigint, checksum text, previous text, at timestamptz,
  "keyId" uuid, signature text`;

// The rows are moved within the database, so the stored values are exactly those that were read and hashed.
const MOVE = {
  name: 'audit-move',
  text: `
    with placed as (
      select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) as p (position, seq, checksum, prev_checksum)
    ),
    taken as (
      -- The position is compared twice: with the join alone Postgres reads the whole queue for every batch.
      delete from audit_outbox o using placed p where o.position = any($1::bigint[]) and o.position = p.position
      returning o.*, p.seq, p.checksum, p.prev_checksum
    ),
    moved as (
      insert into audit_logs (id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action,
        resource_type, resource_id, resource_name, details, ip_address, user_agent, result, error_message,
        seq, checksum, prev_checksum)
      select id, org_id, partner_id, "timestamp", actor_type, actor_id, actor_email, action,
        resource_type, resource_id, resource_name, details, ip_address, user_agent, result, error_message,
        seq, checksum, prev_checksum
      from taken order by position
      returning 1
    ),
    kept as (
      insert into audit_checkpoints (chain_id, kind, number, seq, checksum, previous, at, key_id, signature)
      select "chainId", kind, number, seq, checksum, previous, at, "keyId", signature
      from jsonb_to_recordset($6::jsonb) as c (${SIGNED})
    ),
    heads as (
      insert into audit_chain_heads as h (chain_id, number, seq, checksum, previous, at, key_id, signature)
      select "chainId", number, seq, checksum, previous, at, "keyId", signature
      from jsonb_to_recordset($5::jsonb) as c (${SIGNED})
      on conflict (chain_id) do update set number = excluded.number, seq = excluded.seq, checksum = excluded.checksum,
        previous = excluded.previous, at = excluded.at, key_id = excluded.key_id, signature = excluded.signature
    ),
    actors as (${insertActorsSql('$7')}),
    resources as (${insertResourcesSql('$8')})
    select count(*) as moved from moved`,
};

/** The chains of waiting entries, the longest-waiting first. */
export async function waitingChains(db: Db): Promise<string[]> {
  return withSystem(db, 'find the chains of waiting audit entries', async (tx) => {
    const { rows } = await tx.raw(
      'select chain_id from audit_outbox group by chain_id order by min(position) limit 1000',
    );
    return (rows as { chain_id: string }[]).map((row) => row.chain_id);
  });
}

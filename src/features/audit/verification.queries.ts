import type { Tx } from '../../platform/db/transaction.ts';
import { ZERO_UUID } from './chain.ts';
import { z } from 'zod';

export interface ChainSize {
  /** Nothing was ever recorded in a chain that does not exist. */
  exists: boolean;
  /** By its signed head. */
  length: number;
}

/** Whether the chain exists, and the number of its stored entries. */
export async function chainSize(tx: Tx, id: string): Promise<ChainSize> {
  const { rows } = await tx.raw<{ rows: ChainSize[] }>(
    `select exists (select 1 from audit_chain_heads where chain_id = :id)
        or exists (select 1 from audit_checkpoints where chain_id = :id)
        or exists (select 1 from audit_logs where chain_id = :id) as exists,
      (coalesce((select seq from audit_chain_heads where chain_id = :id), 0)
        - coalesce((select max(seq) from audit_checkpoints where chain_id = :id and kind = 'cut'), 0))::int as length`,
    { id },
  );
  return rows[0] ?? { exists: false, length: 0 };
}

/** The entries that are not sealed yet, and since when the first one waits. */
export async function waitingEntries(tx: Tx): Promise<{ waiting: number; waitingSeconds: number }> {
  const { rows } = await tx.raw(
    `select count(*)::int as waiting, coalesce(extract(epoch from now() - min("timestamp")), 0)::float8 as seconds
    from audit_outbox`,
  );
  return { waiting: Number(rows[0]?.waiting), waitingSeconds: Number(rows[0]?.seconds) };
}

export interface ChainResult {
  at: Date;
  chainId: string;
  fault: { seq: number | null; reason: string } | null;
}

/** The action of entries about verifications, of the route and of the command. */
export const VERIFY_ACTION = 'audit_logs.verify';

export const FAULTS_MAX = 20;

export const StoredFault = z.object({ chainId: z.uuid(), seq: z.number().nullable(), reason: z.string() });

export type StoredFault = z.infer<typeof StoredFault>;

/** The details of the entry that `muster audit verify` leaves in the chain of the operator. */
export const VerificationDetails = z.object({
  /** The only chain that was verified; null: all were. */
  only: z.uuid().nullable(),
  chains: z.number(),
  entries: z.number(),
  isIntact: z.boolean(),
  faults: z.array(StoredFault),
  /** How many there were. Entries of earlier releases do not say it. */
  faultCount: z.number().optional(),
});

export type VerificationDetails = z.infer<typeof VerificationDetails>;

/** The newest ones first, sealed or not yet. */
export async function verificationsByOperator(tx: Tx, which: string, limit: number) {
  const { rows } = await tx.raw<{ rows: { at: Date; details: unknown }[] }>(
    `select * from (
      (select "timestamp" as at, details from audit_logs where chain_id = :zero and action = :action and ${which}
        order by "timestamp" desc limit ${limit})
      union all
      select "timestamp", details from audit_outbox where chain_id = :zero and action = :action and ${which}) entries
    order by at desc limit ${limit}`,
    { zero: ZERO_UUID, action: VERIFY_ACTION },
  );
  return rows.flatMap(({ at, details }) => {
    const parsed = VerificationDetails.safeParse(details);
    return parsed.success ? [{ at, ...parsed.data }] : [];
  });
}

const RouteDetails = z.object({
  fault: z.object({ seq: z.number().nullable(), reason: z.string() }).nullable(),
});

/** The newest verification of each chain. */
export async function verificationsByRoute(tx: Tx, since: Date): Promise<ChainResult[]> {
  const { rows } = await tx.raw<{ rows: { at: Date; chainId: string; details: unknown }[] }>(
    `select newest.at, h.chain_id as "chainId", newest.details from audit_chain_heads h
    cross join lateral (
      select * from (
        (select "timestamp" as at, details from audit_logs
          where chain_id = h.chain_id and action = :action order by "timestamp" desc limit 1)
        union all
        select "timestamp", details from audit_outbox where chain_id = h.chain_id and action = :action) entries
      order by at desc limit 1) newest
    where h.chain_id <> :zero and newest.at > :since`,
    { zero: ZERO_UUID, action: VERIFY_ACTION, since },
  );
  return rows.flatMap(({ at, chainId, details }) => {
    const parsed = RouteDetails.safeParse(details);
    return parsed.success ? [{ at, chainId, fault: parsed.data.fault }] : [];
  });
}

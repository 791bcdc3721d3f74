import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { ZERO_UUID } from '../chain/chain.ts';

/** The action of entries about verifications, of the route and of the command. */
export const VERIFY_ACTION = 'audit_logs.verify';

const FAULTS_MAX = 20;
const StoredFault = z.object({ chainId: z.uuid(), seq: z.number().nullable(), reason: z.string() });
type StoredFault = z.infer<typeof StoredFault>;

/** The details of the entry that `muster audit verify` leaves in the chain of the operator. */
export const VerificationDetails = z.object({
  /** The only chain that was verified; null: all were. */
  only: z.uuid().nullable(),
  chains: z.number(),
  entries: z.number(),
  isIntact: z.boolean(),
  faults: z.array(StoredFault),
});
export type VerificationDetails = z.infer<typeof VerificationDetails>;

/** Only some of the faults, because an entry is short. */
export const verificationDetails = ({
  only,
  chains,
  entries,
  isIntact,
  faults,
}: Omit<VerificationDetails, 'faults'> & { faults: readonly StoredFault[] }): VerificationDetails => ({
  only,
  chains,
  entries,
  isIntact,
  faults: faults.slice(0, FAULTS_MAX).map(({ chainId, seq, reason }) => ({ chainId, seq, reason })),
});

export interface LastVerifications {
  /** The last time that all chains were verified. */
  whole: (VerificationDetails & { at: Date }) | undefined;
  /** What later verifications of single chains found, where the newest one of the chain found something. */
  laterFaults: (StoredFault & { at: Date })[];
}

/** When chains were last verified and what was found, as the trail itself has it. It proves nothing about the trail. */
export const lastVerifications = (db: Db): Promise<LastVerifications> =>
  withSystem(db, 'the last verifications of audit chains', async (tx) => {
    const [newest] = await ofOperator(tx, `details -> 'only' = 'null'`, 1);
    const since = newest?.at ?? new Date(0);
    const single = await ofOperator(tx, `details -> 'only' <> 'null'`, SINGLE_MAX);
    const found = [...single.filter(({ at }) => at > since).flatMap(resultOf), ...(await ofRoute(tx, since))];
    const newestOfChain = new Map<string, ChainResult>();
    for (const result of found) {
      const known = newestOfChain.get(result.chainId);
      if (known === undefined || known.at < result.at) newestOfChain.set(result.chainId, result);
    }
    return {
      whole: newest,
      laterFaults: [...newestOfChain.values()].flatMap(({ at, chainId, fault }) =>
        fault === null ? [] : [{ at, chainId, seq: fault.seq, reason: fault.reason }],
      ),
    };
  });

const SINGLE_MAX = 1000;

interface ChainResult {
  at: Date;
  chainId: string;
  fault: { seq: number | null; reason: string } | null;
}

const resultOf = ({ at, only, isIntact, faults }: VerificationDetails & { at: Date }): ChainResult[] => {
  if (only === null) return [];
  const fault = faults[0] ?? { seq: null, reason: 'the chain was not intact' };
  return [{ at, chainId: only, fault: isIntact ? null : fault }];
};

/** The newest ones first, sealed or not yet. */
async function ofOperator(tx: Tx, which: string, limit: number) {
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

/** Of each chain the newest one. */
async function ofRoute(tx: Tx, since: Date): Promise<ChainResult[]> {
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

import { clock } from '../../clock.ts';
import { ConcurrencyLimiter } from '../../platform/concurrency.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/statement.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import type { SigningKeys } from './signing-keys.ts';
import { checkStored, keysByTrust } from './stored-check.ts';
import type { ChainChoice, ChainReport } from './audit.schema.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { trustedKeys } from './chain-check.ts';
import { isSignedBy } from './chain.ts';
import { readHeads } from './stored-chains.queries.ts';
import {
  type VerificationDetails,
  type StoredFault,
  chainSize,
  waitingEntries,
  FAULTS_MAX,
  verificationsByOperator,
  verificationsByRoute,
  type ChainResult,
} from './verification.queries.ts';

const SINGLE_MAX = 1000;

const resultOf = ({ at, only, isIntact, faults }: VerificationDetails & { at: Date }): ChainResult[] => {
  if (only === null) return [];
  const fault = faults[0] ?? { seq: null, reason: 'the chain was not intact' };
  return [{ at, chainId: only, fault: isIntact ? null : fault }];
};

/** Some seconds of work. Longer chains are for the command, which no request waits for. */
const ENTRIES_MAX = 500_000;

/** On this server, because each keeps a connection and a processor busy. */
const AT_ONCE = 2;

export type VerifyChain = (ctx: DetachedContext, choice: ChainChoice) => Promise<VerifiedChain>;

/** With what the audit entry needs to know whose chain it is. */
type VerifiedChain = Omit<ChainReport, 'verifiedAt'> & { verifiedAt: Date; orgId: string | null };

/** Verifies a chain for a caller who may read it, by the keys of this installation. */
export function createChainVerifier({ db, keys }: { db: Db; keys: SigningKeys }): VerifyChain {
  const limiter = new ConcurrencyLimiter();
  return async (ctx, { orgId }) => {
    const chain = await ctx.withTenant((opened) => findChain(opened, orgId));
    if (chain.length > ENTRIES_MAX) {
      throw new AppError(
        'conflict',
        `The chain has ${chain.length} entries. The command "muster audit verify" verifies chains of more than ${ENTRIES_MAX}.`,
      );
    }
    const verifiedAt = clock.date();
    const { id: chainId } = chain;
    if (!chain.exists) return { chainId, orgId: chain.orgId, entries: 0, verifiedAt, fault: null };
    const shares = [
      { key: `person ${ctx.caller.userId}`, max: 1 },
      { key: 'all', max: AT_ONCE },
    ];
    const report = await limiter.run(shares, () => checkStored(db, { own: keys }, { only: chainId }));
    const [fault] = report.faults;
    if (fault !== undefined) ctx.log.error({ ...fault }, 'audit.chain_broken');
    return {
      chainId,
      orgId: chain.orgId,
      entries: report.entries,
      verifiedAt,
      fault: fault === undefined ? null : { seq: fault.seq, entryId: fault.id, reason: fault.reason },
    };
  };
}

async function findChain(ctx: Context, wanted: string | null) {
  const { caller, tx } = ctx;
  const orgId = wanted ?? caller.orgId;
  const id = orgId ?? caller.partnerId;
  if (id === null) throw invalid('body.orgId', 'must name an organization in system scope');
  if (orgId !== null) {
    const known = await tx('organizations').where({ id: orgId }).whereRaw(inTenant(caller, 'id')).first('id');
    if (known === undefined) throw notFound('Organization');
  }
  const size = await chainSize(tx, id);
  return { id, orgId, ...size };
}

interface AuditState {
  chains: number;
  /** Entries that are not sealed yet, and since when the first one waits. */
  waiting: number;
  waitingSeconds: number;
  faults: string[];
}

/** A check of all chains at once: each has to end with the entry that was signed. */
export function auditState(db: Db, own: SigningKeys): Promise<AuditState> {
  return withSystem(db, 'the state of the audit trail', async (tx) => {
    const { trusted, foreignKeys } = await keysByTrust(tx, { own });
    const keys = trustedKeys(trusted);
    const heads = await readHeads(tx);
    const faults = foreignKeys.map((id) => `The signing key ${id} was not created by this installation.`);
    for (const { head, lastChecksum } of heads) {
      const key = keys.get(head.keyId);
      if (key === undefined || !isSignedBy(head, key)) {
        faults.push(`The end of chain ${head.chainId} is not signed by this installation.`);
      } else if (lastChecksum !== null && lastChecksum !== head.checksum) {
        faults.push(`The last entry of chain ${head.chainId} is not the one that was signed.`);
      }
    }
    return { chains: heads.length, ...(await waitingEntries(tx)), faults };
  });
}

/** Only some of the faults, because an entry is short. */
export const verificationDetails = ({
  only,
  chains,
  entries,
  isIntact,
  faults,
}: Omit<VerificationDetails, 'faults' | 'faultCount'> & {
  faults: readonly StoredFault[];
}): VerificationDetails => ({
  only,
  chains,
  entries,
  isIntact,
  faults: faults.slice(0, FAULTS_MAX).map(({ chainId, seq, reason }) => ({ chainId, seq, reason })),
  faultCount: faults.length,
});

interface LastVerifications {
  /** The last time that all chains were verified. */
  whole: (VerificationDetails & { at: Date }) | undefined;
  /** The findings of later verifications of single chains, if the newest one of the chain found something. */
  laterFaults: (StoredFault & { at: Date })[];
}

/** When chains were last verified and what was found, as the trail itself has it. It proves nothing about the trail. */
export const lastVerifications = (db: Db): Promise<LastVerifications> =>
  withSystem(db, 'the last verifications of audit chains', async (tx) => {
    const [newest] = await verificationsByOperator(tx, `details -> 'only' = 'null'`, 1);
    const since = newest?.at ?? new Date(0);
    const single = await verificationsByOperator(tx, `details -> 'only' <> 'null'`, SINGLE_MAX);
    const found = [
      ...single.filter(({ at }) => at > since).flatMap(resultOf),
      ...(await verificationsByRoute(tx, since)),
    ];
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

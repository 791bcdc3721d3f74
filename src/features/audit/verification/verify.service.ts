import { clock } from '../../../clock.ts';
import { ConcurrencyLimiter } from '../../../platform/concurrency-limiter.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { AppError, invalid, notFound } from '../../../platform/errors.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';
import { checkStored } from './stored-check.ts';
import type { ChainChoice, ChainReport } from './verify.schema.ts';

/** Some seconds of work. Longer chains are for the command, which no request waits for. */
const ENTRIES_MAX = 500_000;
/** On this server, because each keeps a connection and a processor busy. */
const AT_ONCE = 2;

export type VerifyChain = (ctx: DetachedContext, choice: ChainChoice) => Promise<VerifiedChain>;
/** With what the audit entry needs to know whose chain it is. */
type VerifiedChain = Omit<ChainReport, 'verifiedAt'> & { verifiedAt: Date; orgId: string | null };

/** Verifies a chain for who may read it, by the keys of this installation. */
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

interface ChainSize {
  /** Nothing was ever recorded in a chain that does not exist. */
  exists: boolean;
  /** By its signed head. */
  length: number;
}

async function findChain(ctx: Context, wanted: string | null) {
  const { caller, tx } = ctx;
  const orgId = wanted ?? caller.orgId;
  const id = orgId ?? caller.partnerId;
  if (id === null) throw invalid('body.orgId', 'must name an organization in system scope');
  if (orgId !== null) {
    const { rows } = await tx.raw<{ rows: unknown[] }>(
      `select 1 from organizations where id = ? and ${inTenant(caller, 'id')}`,
      [orgId],
    );
    if (rows.length === 0) throw notFound('Organization');
  }
  const { rows } = await tx.raw<{ rows: ChainSize[] }>(
    `select exists (select 1 from audit_chain_heads where chain_id = :id)
        or exists (select 1 from audit_checkpoints where chain_id = :id)
        or exists (select 1 from audit_logs where chain_id = :id) as exists,
      (coalesce((select seq from audit_chain_heads where chain_id = :id), 0)
        - coalesce((select max(seq) from audit_checkpoints where chain_id = :id and kind = 'cut'), 0))::int as length`,
    { id },
  );
  const [size = { exists: false, length: 0 }] = rows;
  return { id, orgId, ...size };
}

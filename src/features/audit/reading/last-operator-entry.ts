import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { ZERO_UUID } from '../chain/chain.ts';

/** When the operator last did something from the command line, as the trail has it; sealed or not yet. */
export function lastOperatorEntry(db: Db, action: string): Promise<Date | undefined> {
  return withSystem(db, 'the last entry of an action of the operator', async (tx) => {
    const { rows } = await tx.raw(
      `select max(at) as at from (
        (select "timestamp" as at from audit_logs where chain_id = ? and action = ? order by "timestamp" desc limit 1)
        union all select max("timestamp") from audit_outbox where chain_id = ? and action = ?) entries`,
      [ZERO_UUID, action, ZERO_UUID, action],
    );
    const at: unknown = rows[0]?.at;
    return at instanceof Date ? at : undefined;
  });
}

import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { trustedKeys } from '../chain/chain-check.ts';
import { isSignedBy } from '../chain/checkpoint.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';
import { readHeads } from '../storage/stored-chains.ts';
import { keysByTrust } from './stored-check.ts';

export interface AuditState {
  chains: number;
  /** Entries that are not sealed yet, and since when the first one waits. */
  waiting: number;
  waitingSeconds: number;
  faults: string[];
}

/** What can be known of all chains at once: each ends with the entry that was signed. */
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
    const { rows } = await tx.raw(
      `select count(*)::int as waiting, coalesce(extract(epoch from now() - min("timestamp")), 0)::float8 as seconds
      from audit_outbox`,
    );
    return {
      chains: heads.length,
      waiting: Number(rows[0]?.waiting),
      waitingSeconds: Number(rows[0]?.seconds),
      faults,
    };
  });
}

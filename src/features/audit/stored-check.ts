import type { Db } from '../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../platform/db/transaction.ts';
import { ChainCheck, type Fault, trustedKeys, type TrustedKeys } from './chain-check.ts';
import type { Checkpoint, PublicKey } from './chain.ts';
import {
  entryFromCopyRow,
  readChainIds,
  readCheckpoints,
  readConsistently,
  readEntryLines,
  readHead,
} from './stored-chains.queries.ts';
import { ParallelCheck, VerifyWorkerPool } from './parallel-check.ts';
import { publicPart, type SigningKeys, signingKeyRows } from './signing-keys.ts';

export interface StoredReport {
  chains: number;
  entries: number;
  checkpoints: number;
  /** At most one for each chain: its first. */
  faults: Fault[];
  keys: PublicKey[];
  /** Keys in the database that this installation did not create; they are not trusted. */
  foreignKeys: string[];
}

export interface StoredTrust {
  /** Keys to trust. If absent, the keys that this installation created. */
  keys?: readonly PublicKey[];
  /** Distinguishes the installation's own keys from inserted ones. */
  own?: SigningKeys;
}

export interface StoredChoice {
  /** Verify only this chain. */
  only?: string | undefined;
  /** Earlier heads by chain, from saved bundles. */
  known?: ReadonlyMap<string, Checkpoint>;
}

/** Verifies one or all chains in a consistent snapshot of the database. */
export async function checkStored(
  db: Db,
  trust: StoredTrust,
  { only, known = new Map() }: StoredChoice = {},
): Promise<StoredReport> {
  const workers = new VerifyWorkerPool();
  try {
    return await withSystem(db, 'check the chains of the audit trail', async (tx) => {
      await readConsistently(tx);
      const { trusted, foreignKeys } = await keysByTrust(tx, trust);
      const keys = trustedKeys(trusted);
      const report: StoredReport = {
        chains: 0,
        entries: 0,
        checkpoints: 0,
        faults: [],
        keys: trusted,
        foreignKeys,
      };
      // A known chain that no longer exists at all is reported as a chain without a head.
      const chains = only === undefined ? new Set([...(await readChainIds(tx)), ...known.keys()]) : [only];
      for (const chainId of chains) {
        await checkOne(tx, { chainId, known: known.get(chainId) }, keys, workers, report);
      }
      return report;
    });
  } finally {
    await workers.close();
  }
}

export async function keysByTrust(tx: Tx, { own, keys }: StoredTrust) {
  if (keys !== undefined) return { trusted: [...keys], foreignKeys: [] };
  const rows = await signingKeyRows(tx);
  const ours = rows.filter((row) => own?.isOurs(row) === true);
  return {
    trusted: ours.map(publicPart),
    foreignKeys: rows.filter((row) => !ours.includes(row)).map(({ id }) => id),
  };
}

async function checkOne(
  tx: Tx,
  { chainId, known }: { chainId: string; known: Checkpoint | undefined },
  keys: TrustedKeys,
  workers: VerifyWorkerPool,
  report: StoredReport,
): Promise<void> {
  const checkpoints = await readCheckpoints(tx, chainId);
  const head = await readHead(tx, chainId);
  const check = new ChainCheck(
    { chainId, head, checkpoints, known: known === undefined ? [] : [known] },
    keys,
  );
  const lines = new ParallelCheck(
    {
      format: 'copy',
      line: (line) => check.add(entryFromCopyRow(line)),
      segment: (segment) => check.addSegment(segment),
    },
    workers,
  );
  await readEntryLines(tx, chainId, (line) => lines.add(line));
  await lines.end();
  const fault = check.end();
  report.chains++;
  report.entries += check.count;
  report.checkpoints += checkpoints.length;
  if (fault !== undefined) report.faults.push(fault);
}

import type { Db } from '../../../platform/db/pool.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import { ChainCheck, type Fault, trustedKeys, type TrustedKeys } from '../chain/chain-check.ts';
import type { Checkpoint, PublicKey } from '../chain/checkpoint.ts';
import { entryFromCopyRow } from '../storage/copy-row.ts';
import { ParallelCheck } from './parallel-check.ts';
import { VerifyWorkerPool } from './verify-worker-pool.ts';
import { publicPart, type SigningKeys, signingKeyRows } from '../storage/signing-keys.ts';
import {
  readChainIds,
  readCheckpoints,
  readConsistently,
  readEntryLines,
  readHead,
} from '../storage/stored-chains.ts';

export interface StoredReport {
  chains: number;
  entries: number;
  checkpoints: number;
  /** The first of each chain. */
  faults: Fault[];
  keys: PublicKey[];
  /** Keys in the database that this installation did not make: they are not trusted. */
  foreignKeys: string[];
}

export interface StoredTrust {
  /** Keys to trust. Absent: those that this installation has made. */
  keys?: readonly PublicKey[];
  /** To tell those from keys that somebody put there. */
  own?: SigningKeys;
}

export interface StoredChoice {
  /** Only this chain. */
  only?: string | undefined;
  /** The heads that chains had earlier, as somebody kept them. */
  known?: ReadonlyMap<string, Checkpoint>;
}

/** Checks the chains in the database, all or one, as they are at this moment. */
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
      // One that is known and gone altogether is a chain without a head.
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
    { form: 'copied', line: (line) => check.add(entryFromCopyRow(line)), run: (run) => check.addSegment(run) },
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

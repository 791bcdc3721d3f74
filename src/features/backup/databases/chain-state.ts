import type { Tx } from '../../../platform/db/transaction.ts';
import { DatabaseDetails } from '../../../protocol/index.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import type { ChainSnapshot } from './chains.ts';

/** The error of a job whose device has found that the log no longer reaches back to the chain. */
export const CHAIN_BROKEN = 'CHAIN_BROKEN';

export interface ChainState {
  snapshots: ChainSnapshot[];
  isChainBroken: boolean;
}

/** The chains of a repository, and whether the newest of them can go on. */
export async function readChainState(tx: Tx, repositoryId: string): Promise<ChainState> {
  const found = await BackupSnapshot.query(tx)
    .where('repository_id', repositoryId)
    .whereNull('removed_at')
    .whereRaw(`details ->> 'kind' = 'database'`);
  const snapshots = chainSnapshots(found);
  const newest = Math.max(...snapshots.map(({ receivedAt }) => receivedAt.getTime()), 0);
  const lastBreak = await tx('backup_jobs')
    .where({ repository_id: repositoryId, status: 'failed', error_code: CHAIN_BROKEN })
    .where('finished_at', '>', new Date(newest))
    .first('id');
  return { snapshots, isChainBroken: lastBreak !== undefined };
}

/** Those of databases. Details of another release that cannot be read make a snapshot one of files. */
export function chainSnapshots<S extends Pick<BackupSnapshot, 'id' | 'receivedAt' | 'details'>>(
  snapshots: readonly S[],
): (S & ChainSnapshot)[] {
  return snapshots.flatMap((snapshot) => {
    const details = DatabaseDetails.safeParse(snapshot.details).data;
    return details === undefined ? [] : [{ ...snapshot, details }];
  });
}

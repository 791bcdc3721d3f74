import type { SqlBackupSet } from '../../../protocol/index.ts';

/**
 * What can be restored of a database of SQL Server, from the history that the server itself keeps. It has the backups of
 * everybody, so that one of another program which breaks ours is seen.
 */

export interface HistoryChain {
  full: SqlBackupSet;
  differentials: SqlBackupSet[];
  /** Those that join the full backup without a gap, in their order. */
  logs: SqlBackupSet[];
  /** A log that joins is missing, and later ones are there. */
  hasGap: boolean;
  recoverableTo: string;
  isOurs: boolean;
}

export interface HistoryWarning {
  code: 'FOREIGN_FULL' | 'LOG_GAP' | 'DAMAGED' | 'NO_FULL';
  message: string;
}

const CHAINS_MAX = 20;

const lsn = (text: string) => BigInt(text);
const sameId = (a: string | null, b: string | null) => a !== null && a.toLowerCase() === b?.toLowerCase();

/** By the names that our own backups have. */
export const isOurs = ({ file }: Pick<SqlBackupSet, 'file'>): boolean =>
  /(?:^|[\\/])muster-[^\\/]{1,200}$/.test(file ?? '');

/** The newest chains first, at most 20. */
export function chainsOf(sets: readonly SqlBackupSet[]): {
  chains: HistoryChain[];
  warnings: HistoryWarning[];
} {
  const usable = sets.filter(({ isDamaged }) => !isDamaged).sort((a, b) => a.id - b.id);
  const logs = usable
    .filter(({ backupType }) => backupType === 'log')
    .sort((a, b) => compare(lsn(a.lastLsn), lsn(b.lastLsn)) || a.id - b.id);
  const fulls = usable.filter(({ backupType }) => backupType === 'full');
  const chains = fulls
    .slice(-CHAINS_MAX)
    .reverse()
    .map((full) => chainOf(full, usable, logs));
  return { chains, warnings: warningsOf(sets, chains) };
}

function chainOf(
  full: SqlBackupSet,
  usable: readonly SqlBackupSet[],
  logs: readonly SqlBackupSet[],
): HistoryChain {
  // No differential backup is ever based on a copy.
  const differentials = full.isCopyOnly
    ? []
    : usable.filter(
        ({ backupType, differentialBase }) =>
          backupType === 'differential' && sameId(differentialBase, full.uuid),
      );
  const joined: SqlBackupSet[] = [];
  let reached = lsn(full.lastLsn);
  let hasGap = false;
  for (const log of logs) {
    if (!sameForkAs(log, full) || lsn(log.lastLsn) <= reached) continue;
    if (lsn(log.firstLsn) > reached) {
      hasGap = true;
      break;
    }
    joined.push(log);
    reached = lsn(log.lastLsn);
  }
  const newest = [full, differentials.at(-1), joined.at(-1)]
    .flatMap((each) => each?.finishedAt ?? [])
    .sort()
    .at(-1);
  return {
    full,
    differentials,
    logs: joined,
    hasGap,
    recoverableTo: newest ?? full.finishedAt,
    isOurs: isOurs(full),
  };
}

/** After a restore to an earlier time, the log goes on in another fork. */
const sameForkAs = (log: SqlBackupSet, full: SqlBackupSet) =>
  log.fork === full.fork || sameId(log.fork, full.fork);

function warningsOf(sets: readonly SqlBackupSet[], chains: readonly HistoryChain[]): HistoryWarning[] {
  const warnings: HistoryWarning[] = [];
  const [newest] = chains.filter(({ full }) => !full.isCopyOnly);
  if (newest === undefined) {
    warnings.push({ code: 'NO_FULL', message: 'There is no full backup that others can be based on.' });
  } else if (!newest.isOurs && chains.some(({ isOurs: ours }) => ours)) {
    warnings.push({
      code: 'FOREIGN_FULL',
      message:
        'Another program has made a full backup since ours: differential backups are based on that one now. Make a full backup, and let the other program make copies only.',
    });
  }
  if (newest?.hasGap === true) {
    warnings.push({ code: 'LOG_GAP', message: 'A log backup is missing: nothing after it can be restored.' });
  }
  if (sets.some(({ isDamaged }) => isDamaged)) {
    warnings.push({
      code: 'DAMAGED',
      message: 'SQL Server has found damage in a backup. It is not offered.',
    });
  }
  return warnings;
}

const compare = (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1);

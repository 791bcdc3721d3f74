import type { Input, SqlChains } from '../../../api/index.ts';
import type { SqlSet, SqlSource } from './sql-parts.ts';

/** Restores of several backups of SQL Server's history, one after another. */

export type Chain = SqlChains['data']['chains'][number];

/** All backups of a chain: the full one, the differential ones, the logs. */
export const setsOf = ({ full, differentials, logs }: Chain): SqlSet[] => [full, ...differentials, ...logs];

/** Why a backup cannot be restored; `undefined` where it can. */
export function noRestore({ file, isDamaged }: SqlSet): string | undefined {
  if (isDamaged) return 'SQL Server has marked this backup as damaged.';
  return file === null ? 'SQL Server does not say in which file it is.' : undefined;
}

const isBeyond = (set: SqlSet, before: SqlSet): boolean => BigInt(set.lastLsn) > BigInt(before.lastLsn);

/** What leads to a backup: the full one, the newest differential one that helps, and the logs from there on. */
export function pathTo({ full, differentials, logs }: Chain, end: SqlSet): SqlSet[] {
  if (end.backupType === 'full') return [full];
  if (end.backupType === 'differential') return [full, end];
  const [base = full] = differentials
    .filter((each) => noRestore(each) === undefined && !isBeyond(each, end))
    .sort((a, b) => (isBeyond(a, b) ? -1 : 1));
  const needed = logs.filter((log) => isBeyond(log, base) && !isBeyond(log, end));
  return base === full ? [full, ...needed] : [full, base, ...needed];
}

export interface ChainOrder {
  path: readonly SqlSet[];
  targetDatabase: string;
  /** As a field for times holds it. Empty: all of the last backup. */
  stopAt: string;
  /** The database waits for more, also after the last one. */
  noRecovery: boolean;
}

/** Fields for times leave out seconds that are zero. */
const withSeconds = (time: string): string => (time.length === 16 ? `${time}:00` : time);

/** What the device is sent for one backup of the path. */
export function stepBody(
  { deviceId, instance }: SqlSource,
  { path, targetDatabase, stopAt, noRecovery }: ChainOrder,
  step: number,
): Input<'POST /backup/mssql/restore'>['body'] {
  const set = path[step];
  if (set === undefined) throw new Error(`The restore has no step ${step}.`);
  const isLast = step === path.length - 1;
  return {
    deviceId,
    instance,
    backupFile: set.file ?? '',
    targetDatabase,
    backupType: set.backupType,
    noRecovery: !isLast || noRecovery,
    ...(isLast && set.backupType === 'log' && stopAt !== '' ? { stopAt: withSeconds(stopAt) } : {}),
  };
}

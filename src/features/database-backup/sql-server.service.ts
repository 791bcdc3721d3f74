import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { BACKUP_TIMEOUT_SECONDS, type CommandPayload, type SqlBackupSet } from '../../protocol/index.ts';
import { deviceRequests } from '../backup/index.ts';
import { addCommands } from '../commands/index.ts';
import { commandTargets, supportsCommand } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import type { NewSqlBackup, NewSqlRestore, SqlWork } from './sql-server.schema.ts';

// Finds what can be restored of a database of SQL Server in the history that the server itself keeps. The history
// includes backups by other programs, so that one that breaks our chain is noticed.

interface HistoryChain {
  full: SqlBackupSet;
  differentials: SqlBackupSet[];
  /** The logs that join the full backup, or a differential one, without a gap, in their order. */
  logs: SqlBackupSet[];
  /** A log that joins is missing, and later ones are there that no differential backup joins either. */
  hasGap: boolean;
  recoverableTo: string;
  isOurs: boolean;
}

interface HistoryWarning {
  code: 'FOREIGN_FULL' | 'LOG_GAP' | 'DAMAGED' | 'NO_FULL';
  message: string;
}

const CHAINS_MAX = 20;

const lsn = (text: string) => BigInt(text);
const sameId = (a: string | null, b: string | null) => a !== null && a.toLowerCase() === b?.toLowerCase();

/** By the names that our own backups have. */
const isOurs = ({ file }: Pick<SqlBackupSet, 'file'>): boolean =>
  /(?:^|[\\/])muster-[^\\/]{1,200}$/.test(file ?? '');

/** The newest chains first, at most 20. */
export function chainsOf(sets: readonly SqlBackupSet[]): {
  chains: HistoryChain[];
  chainCount: number;
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
  return { chains, chainCount: fulls.length, warnings: warningsOf(sets, chains) };
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
  const bridges = differentials.filter(({ file }) => file !== null).map(({ lastLsn }) => lsn(lastLsn));
  const ofFork = logs.filter((log) => sameForkAs(log, full));
  const joined: SqlBackupSet[] = [];
  let reached = lsn(full.lastLsn);
  for (const log of ofFork) {
    const [first, last] = [lsn(log.firstLsn), lsn(log.lastLsn)];
    // A differential backup has everything up to its end, whichever logs before it are missing.
    if (first > reached) reached = bridges.filter((end) => end >= first).sort(compare)[0] ?? reached;
    if (first > reached || last <= reached) continue;
    joined.push(log);
    reached = last;
  }
  const hasGap = ofFork.some(({ lastLsn }) => lsn(lastLsn) > reached);
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

interface SqlParts {
  hub: DeviceHub;
}

/** Beyond that, what was asked for may not be wanted any more. */
const TTL_SECONDS = 86_400;

export const backUpDatabase = (
  ctx: Context,
  { deviceId, ...wanted }: NewSqlBackup,
  parts: SqlParts,
): Promise<SqlWork> =>
  send(ctx, { deviceId, type: 'backup', instance: wanted.instance, database: wanted.database }, parts, {
    type: 'backup.mssql-backup',
    payload: { ...wanted, timeoutSeconds: BACKUP_TIMEOUT_SECONDS },
  });

export const restoreDatabaseFile = (
  ctx: Context,
  { deviceId, stopAt, ...wanted }: NewSqlRestore,
  parts: SqlParts,
): Promise<SqlWork> =>
  send(
    ctx,
    { deviceId, type: 'restore', instance: wanted.instance, database: wanted.targetDatabase },
    parts,
    {
      type: 'backup.mssql-restore',
      payload: {
        ...wanted,
        ...(stopAt === undefined ? {} : { stopAt }),
        restoreId: newId(),
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
    },
  );

/** Asks the device, because SQL Server keeps the history, also of backups by other programs. */
export async function readChains(
  ctx: DetachedContext,
  { deviceId, instance, database }: { deviceId: string; instance: string; database: string },
  { hub, signal }: SqlParts & { signal: AbortSignal },
) {
  const question = { type: 'backup.mssql-history', payload: { instance, database }, signal } as const;
  const { sets, recoveryModel } = await deviceRequests.askDevice(ctx, deviceId, question, hub);
  return { data: { deviceId, instance, database, recoveryModel, ...chainsOf(sets) } };
}

type SqlCommand = {
  [T in 'backup.mssql-backup' | 'backup.mssql-restore']: { type: T; payload: CommandPayload<T> };
}['backup.mssql-backup' | 'backup.mssql-restore'];

async function send(
  ctx: Context,
  about: Pick<SqlWork, 'deviceId' | 'type' | 'instance' | 'database'>,
  { hub }: SqlParts,
  work: SqlCommand,
): Promise<SqlWork> {
  const [device] = await commandTargets(ctx, [about.deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  if (!supportsCommand(hub, device, work.type)) {
    throw new AppError('capability_missing', 'The agent on this device does not know SQL Server.');
  }
  const [command] = await addCommands(ctx, [device], { ...work, ttlSeconds: TTL_SECONDS }, hub);
  if (command === undefined) throw new Error('no command was created');
  return { ...about, id: command.id, orgId: command.orgId, status: command.status };
}

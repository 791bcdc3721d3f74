import { DAY_MS } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import {
  CHAIN_PARTS_MAX,
  type DatabaseBackupType,
  DatabaseDetails,
  type DatabaseEngine,
} from '../../protocol/index.ts';
import { type ChainSnapshot, groupsOf, linkUp, membersOf } from './database-chains.ts';
import type { ChainEnds, DeviceFacts } from './protection.ts';
import { BackupSnapshot } from './snapshot.model.ts';

// Which type the next backup of a database has.

/** Beyond that, a restore takes long, and one lost log loses much. */
const LOGS_MAX = CHAIN_PARTS_MAX / 2;

interface TypeSituation {
  /** The snapshots that are in the repository. */
  snapshots: readonly ChainSnapshot[];
  /** The type that a person has asked for. */
  wanted: DatabaseBackupType | null;
  /** Since the newest snapshot a device has found that the log no longer reaches back to it. */
  isChainBroken: boolean;
  now: Date;
}

type TypeDecision =
  | {
      backupType: DatabaseBackupType;
      /** Why, for a person. */
      reason: string;
      full: DatabaseDetails | null;
      /** The backup that a log continues. */
      previous: DatabaseDetails | null;
    }
  | { refusal: string };

/** The facts that decide for every engine. */
interface TypeSources {
  engine: DatabaseEngine;
  instance?: string | undefined;
  /** For engines whose databases have chains of their own. */
  database?: string | undefined;
  fullEveryDays: number;
  between: DatabaseBackupType | 'none';
}

export function decideType(
  sources: TypeSources,
  { snapshots, wanted, isChainBroken, now }: TypeSituation,
): TypeDecision {
  const { engine, instance, database, fullEveryDays, between } = sources;
  const own = snapshots.filter(
    ({ details }) =>
      details.engine === engine &&
      (instance === undefined || details.instance === instance) &&
      (database === undefined || details.databases[0] === database),
  );
  const linked = linkUp(own);
  const full = linked.links
    .filter(({ snapshot }) => snapshot.details.backupType === 'full')
    .sort((a, b) => b.snapshot.receivedAt.getTime() - a.snapshot.receivedAt.getTime())[0];
  const asFull = (reason: string): TypeDecision => ({
    backupType: 'full',
    reason,
    full: null,
    previous: null,
  });
  if (wanted === 'full') return asFull('It was asked for.');
  const unsupported = wanted === null ? undefined : unsupportedType(engine, wanted);
  if (unsupported !== undefined) return { refusal: unsupported };
  const type = wanted ?? (between === 'none' ? 'full' : between);
  if (type === 'full') return asFull('The configuration makes full backups only.');
  if (full === undefined) {
    return wanted === null
      ? asFull('There is no full backup yet.')
      : { refusal: `A ${type} backup needs a full one, and there is none.` };
  }
  if (isChainBroken) {
    return wanted === null
      ? asFull('The chain is broken: the server of the database no longer had the log that continues it.')
      : { refusal: `A ${type} backup cannot be made: the chain is broken. Make a full backup.` };
  }
  if (wanted === null && now.getTime() - full.snapshot.receivedAt.getTime() >= fullEveryDays * DAY_MS) {
    return asFull(`The last full backup is ${fullEveryDays} days old or older.`);
  }
  const chain = membersOf(linked).get(full.snapshot.id) ?? [];
  const logs = chain.filter(({ snapshot }) => snapshot.details.backupType === 'log').length;
  if (wanted === null && logs >= LOGS_MAX) return asFull(`The chain has ${logs} logs.`);
  return {
    backupType: type,
    reason: wanted === null ? `The chain goes on: it has ${chain.length} backups.` : 'It was asked for.',
    full: full.snapshot.details,
    previous: type === 'log' ? (chain.at(-1)?.snapshot.details ?? null) : null,
  };
}

/** Why an engine has no backups of a type; `undefined`: it has. */
function unsupportedType(engine: DatabaseEngine, type: DatabaseBackupType): string | undefined {
  if (engine === 'mariadb' && type === 'log') {
    return 'MariaDB has no log backups here: use differential ones, or full ones only.';
  }
  if (engine === 'postgresql' && type === 'differential') {
    return 'PostgreSQL has no differential backups here: use logs, which are as small, or full ones only.';
  }
  return undefined;
}

/** The error of a job whose device has found that the log no longer reaches back to the chain. */
const CHAIN_BROKEN = 'CHAIN_BROKEN';

interface ChainState {
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

/** Returns the snapshots of databases. Details of another release that cannot be read make a snapshot one of files. */
export function chainSnapshots<S extends Pick<BackupSnapshot, 'id' | 'receivedAt' | 'details'>>(
  snapshots: readonly S[],
): (S & ChainSnapshot)[] {
  return snapshots.flatMap((snapshot) => {
    const details = DatabaseDetails.safeParse(snapshot.details).data;
    return details === undefined ? [] : [{ ...snapshot, details }];
  });
}

/** So many repositories are read at once: a repository may hold a thousand snapshots of logs. */
const REPOSITORIES_AT_ONCE = 20;

/**
 * How the chains of a repository end: the newest snapshot that a restore can use, and what cannot be restored any more.
 * Old chains that are broken do not count. What counts is the newest snapshot of each server of databases.
 */
export function chainEndsOf(snapshots: readonly ChainSnapshot[]): ChainEnds {
  const { links, broken } = linkUp(snapshots);
  const reasons = new Map(broken.map(({ snapshot, reason }) => [snapshot.id, reason]));
  const ends = [...groupsOf(snapshots, serverOf).values()].map((group) => group.reduce(later));
  const lost = ends.find(({ id }) => reasons.has(id));
  const restorable = links.map(({ snapshot }) => snapshot);
  return {
    restorableAt: restorable.length === 0 ? null : restorable.reduce(later).receivedAt,
    brokenBecause: lost === undefined ? null : (reasons.get(lost.id) ?? null),
  };
}

/** SQL Server has a log for each database; the others have one for the whole server. */
const serverOf = ({ details: { engine, instance, databases } }: ChainSnapshot) =>
  JSON.stringify([engine, instance, engine === 'mssql' ? databases : null]);

const later = (one: ChainSnapshot, other: ChainSnapshot) => (other.receivedAt > one.receivedAt ? other : one);

/** Adds how their chains end to the facts of devices whose databases are backed up. */
export async function addChainEnds(tx: Tx, devices: readonly DeviceFacts[]): Promise<void> {
  const protections = devices
    .flatMap((device) => device.protections)
    .filter(({ hasDatabases }) => hasDatabases);
  for (let i = 0; i < protections.length; i += REPOSITORIES_AT_ONCE) {
    const some = protections.slice(i, i + REPOSITORIES_AT_ONCE);
    const found = await BackupSnapshot.query(tx)
      .select('id', 'repository_id', 'received_at', 'details')
      .whereIn(
        'repository_id',
        some.map(({ repositoryId }) => repositoryId),
      )
      .whereNull('removed_at')
      .where('backup_type', 'database');
    const byRepository = groupsOf(chainSnapshots(found), ({ repositoryId }) => repositoryId);
    for (const protection of some) {
      protection.chainEnds = chainEndsOf(byRepository.get(protection.repositoryId) ?? []);
    }
  }
}

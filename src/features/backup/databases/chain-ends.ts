import type { Tx } from '../../../platform/db/transaction.ts';
import type { ChainEnds, DeviceFacts } from '../core/protection.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { chainSnapshots } from './chain-state.ts';
import { type ChainSnapshot, groupsOf, linkUp } from './chains.ts';

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

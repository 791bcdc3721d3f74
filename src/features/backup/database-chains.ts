import type { DatabaseDetails } from '../../../protocol/index.ts';

/**
 * How backups of databases hang together. A full backup stands for itself, a differential one needs its full one, and a
 * log needs what it continues. All of it is what devices have written: it decides what is offered and what is kept, and the
 * device that restores checks again.
 */

export interface ChainSnapshot {
  id: string;
  receivedAt: Date;
  details: DatabaseDetails;
}

/** A snapshot whose positions can be read. */
export interface Link<S extends ChainSnapshot = ChainSnapshot> {
  snapshot: S;
  from: bigint;
  to: bigint;
}

export interface Linked<S extends ChainSnapshot = ChainSnapshot> {
  /** Those that can be restored, in the order of the positions that they reach. */
  links: Link<S>[];
  /** What each of them needs first, by its id; null: it is a full backup. */
  needs: ReadonlyMap<string, Link<S> | null>;
  /** Why the others cannot be restored. */
  broken: { snapshot: S; reason: string }[];
}

const RANK = { full: 0, differential: 1, log: 2 } as const;

/** A position as a number that can be compared. PostgreSQL writes two halves of 32 bits. */
export function positionOf(position: string): bigint {
  const [high = '', low] = position.split('/');
  return low === undefined ? BigInt(high) : (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`);
}

/** Backups join only within the same database server, and on the same branch of its history. */
export function seriesOf({ engine, instance, branch, databases }: DatabaseDetails): string {
  // SQL Server has a log for each database; the others have one for the whole server.
  return JSON.stringify([engine, instance, branch, engine === 'mssql' ? databases : null]);
}

/**
 * Finds what each snapshot needs.
 * @param isUsable  which full and differential backups may be built on; all, where it is left out
 */
export function linkUp<S extends ChainSnapshot>(
  snapshots: readonly S[],
  isUsable: (details: DatabaseDetails) => boolean = () => true,
): Linked<S> {
  const needs = new Map<string, Link<S> | null>();
  const broken: { snapshot: S; reason: string }[] = [];
  const links: Link<S>[] = [];
  for (const series of groupsOf(snapshots, ({ details }) => seriesOf(details)).values()) {
    const restorable: Link<S>[] = [];
    for (const link of inOrder(series, broken)) {
      const { snapshot } = link;
      const needed = neededBy(link, restorable);
      if (needed === 'missing') {
        broken.push({ snapshot, reason: MISSING[snapshot.details.backupType] });
        continue;
      }
      if (snapshot.details.backupType !== 'log' && !isUsable(snapshot.details)) continue;
      needs.set(snapshot.id, needed);
      restorable.push(link);
    }
    links.push(...restorable);
  }
  return { links, needs, broken };
}

const MISSING = {
  full: 'It has no positions.',
  differential: 'The full backup that it needs is not there.',
  log: 'What it continues is not there: logs before it are missing.',
};

/** In the order of what they reach, so that what a snapshot needs comes before it. */
function inOrder<S extends ChainSnapshot>(
  snapshots: readonly S[],
  broken: { snapshot: S; reason: string }[],
): Link<S>[] {
  const links: Link<S>[] = [];
  for (const snapshot of snapshots) {
    const { from, to } = snapshot.details;
    const link = to === null ? undefined : { snapshot, from: positionOf(from ?? to), to: positionOf(to) };
    if (link === undefined || link.from > link.to) {
      broken.push({ snapshot, reason: 'Its positions cannot be read.' });
    } else {
      links.push(link);
    }
  }
  return links.sort(byPosition);
}

function byPosition(a: Link, b: Link): number {
  if (a.to !== b.to) return a.to < b.to ? -1 : 1;
  const rank = RANK[a.snapshot.details.backupType] - RANK[b.snapshot.details.backupType];
  if (rank !== 0) return rank;
  const age = a.snapshot.receivedAt.getTime() - b.snapshot.receivedAt.getTime();
  return age === 0 ? (a.snapshot.id < b.snapshot.id ? -1 : 1) : age;
}

/** @param before  what can be restored and reaches no further, in order */
function neededBy<S extends ChainSnapshot>(
  { snapshot: { details }, from }: Link<S>,
  before: readonly Link<S>[],
): Link<S> | null | 'missing' {
  if (details.backupType === 'full') return null;
  if (details.backupType === 'log') {
    const last = before.at(-1);
    return last === undefined || last.to < from ? 'missing' : last;
  }
  return (
    before.findLast(
      ({ snapshot }) => snapshot.details.backupType === 'full' && snapshot.details.to === details.basedOn,
    ) ?? 'missing'
  );
}

export function groupsOf<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** A snapshot and everything that it needs, in the order in which it is restored. */
export function pathTo<S extends ChainSnapshot>({ needs }: Linked<S>, link: Link<S>): Link<S>[] {
  const path = [link];
  for (let next = needs.get(link.snapshot.id) ?? null; next !== null; ) {
    path.unshift(next);
    next = needs.get(next.snapshot.id) ?? null;
  }
  return path;
}

/** The ids of what these snapshots need, theirs included. Retention keeps all of it. */
export function withWhatTheyNeed(
  kept: ReadonlySet<string>,
  snapshots: readonly ChainSnapshot[],
): Set<string> {
  const { links, needs } = linkUp(snapshots);
  const needed = new Set(kept);
  // What needs another one comes after it.
  for (const { snapshot } of [...links].reverse()) {
    const needsFirst = needs.get(snapshot.id);
    if (needed.has(snapshot.id) && needsFirst != null) needed.add(needsFirst.snapshot.id);
  }
  return needed;
}

import type { DatabaseDetails } from '../../protocol/index.ts';

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
  /** The links that can be restored, in the order of the positions that they reach. */
  links: Link<S>[];
  /** The backup that each of them needs first, by id; null for a full backup. */
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
 * @param isUsable  which full and differential backups may be built on; all, if it is left out
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
    const fulls = new Map<string | null, Link<S>>();
    for (const link of inOrder(series, broken)) {
      const { snapshot } = link;
      const needed = neededBy(link, restorable.at(-1), fulls);
      if (needed === 'missing') {
        broken.push({ snapshot, reason: MISSING[snapshot.details.backupType] });
        continue;
      }
      if (snapshot.details.backupType !== 'log' && !isUsable(snapshot.details)) continue;
      needs.set(snapshot.id, needed);
      restorable.push(link);
      if (snapshot.details.backupType === 'full') fulls.set(snapshot.details.to, link);
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

/**
 * @param last   what can be restored and reaches furthest of all that reaches no further than this
 * @param fulls  the full backups of before, by the position that they reach; the newest, if several reach the same
 */
function neededBy<S extends ChainSnapshot>(
  { snapshot: { details }, from }: Link<S>,
  last: Link<S> | undefined,
  fulls: ReadonlyMap<string | null, Link<S>>,
): Link<S> | null | 'missing' {
  if (details.backupType === 'full') return null;
  if (details.backupType === 'log') return last === undefined || last.to < from ? 'missing' : last;
  return fulls.get(details.basedOn) ?? 'missing';
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
    path.push(next);
    next = needs.get(next.snapshot.id) ?? null;
  }
  return path.reverse();
}

/** The links of each chain, by the id of the full backup that they stand on, which comes first. */
export function membersOf<S extends ChainSnapshot>({ links, needs }: Linked<S>): Map<string, Link<S>[]> {
  const roots = new Map<string, string>();
  return groupsOf(links, ({ snapshot: { id } }) => {
    const needed = needs.get(id) ?? null;
    // A needed backup comes first, so its root is known.
    const root = needed === null ? id : (roots.get(needed.snapshot.id) ?? '');
    roots.set(id, root);
    return root;
  });
}

/** The ids of what these snapshots need, theirs included. Retention keeps all of it. */
export function withWhatTheyNeed(
  kept: ReadonlySet<string>,
  snapshots: readonly ChainSnapshot[],
): Set<string> {
  const { links, needs } = linkUp(snapshots);
  const needed = new Set(kept);
  // A backup that needs another one comes after it.
  for (const { snapshot } of [...links].reverse()) {
    const needsFirst = needs.get(snapshot.id);
    if (needed.has(snapshot.id) && needsFirst != null) needed.add(needsFirst.snapshot.id);
  }
  return needed;
}

// Finds the instants that can be restored from the backups of databases, and the snapshots for each.

/** A full backup, and everything that can be restored with it. */
export interface Chain<S extends ChainSnapshot = ChainSnapshot> {
  full: S;
  /** The full one first, in the order of positions. */
  snapshots: S[];
  /** Every instant in these can be restored, both ends included. */
  ranges: { from: Date; to: Date }[];
}

interface Chains<S extends ChainSnapshot = ChainSnapshot> {
  chains: Chain<S>[];
  broken: { snapshot: S; reason: string }[];
}

/** The newest chain first. */
export function chainsOf<S extends ChainSnapshot>(snapshots: readonly S[]): Chains<S> {
  const linked = linkUp(snapshots);
  const logs = groupsOf(
    linked.links.filter(({ snapshot }) => isLog(snapshot)),
    ({ snapshot }) => seriesOf(snapshot.details),
  );
  const chains = [...membersOf(linked).values()].flatMap((links) => {
    const [first] = links;
    if (first === undefined) return [];
    const ofSeries = logs.get(seriesOf(first.snapshot.details)) ?? [];
    const ranges = merged(links.flatMap((link) => rangeFrom(link, ofSeries) ?? []));
    return {
      full: first.snapshot,
      snapshots: links.map(({ snapshot }) => snapshot),
      ranges: ranges.map(({ from, to }) => ({ from: new Date(from), to: new Date(to) })),
    };
  });
  return {
    chains: chains.sort((a, b) => b.full.receivedAt.getTime() - a.full.receivedAt.getTime()),
    broken: linked.broken,
  };
}

/**
 * The instants that a full or differential backup makes restorable, with the logs of the server that join on. A log may
 * join on several full backups, and is listed with the newest of them only.
 */
function rangeFrom(
  { snapshot, to: begin }: Link,
  logs: readonly Link[],
): { from: number; to: number } | undefined {
  const from = instantOf(snapshot.details.recoverableFrom);
  if (isLog(snapshot) || from === undefined) return undefined;
  let reached = begin;
  let to = Number.NEGATIVE_INFINITY;
  for (const log of logs) {
    if (log.to < begin) continue;
    if (log.from > reached) continue;
    reached = log.to;
    to = Math.max(to, instantOf(log.snapshot.details.recoverableTo) ?? to);
  }
  return to >= from ? { from, to } : undefined;
}

const isLog = ({ details }: ChainSnapshot) => details.backupType === 'log';

function merged(ranges: readonly { from: number; to: number }[]): { from: number; to: number }[] {
  const all: { from: number; to: number }[] = [];
  for (const range of [...ranges].sort((a, b) => a.from - b.from)) {
    const last = all.at(-1);
    if (last !== undefined && range.from <= last.to) last.to = Math.max(last.to, range.to);
    else all.push({ ...range });
  }
  return all;
}

function instantOf(text: string | null): number | undefined {
  const ms = text === null ? Number.NaN : Date.parse(text);
  return Number.isFinite(ms) ? ms : undefined;
}

/** The snapshots that a restore applies, in their order, or why there is none. */
type RestorePlan<S extends ChainSnapshot> = { path: S[] } | { refusal: string };

/** A snapshot as it is: with it, everything that it needs. */
export function planSnapshot<S extends ChainSnapshot>(snapshots: readonly S[], id: string): RestorePlan<S> {
  const linked = linkUp(snapshots);
  const link = linked.links.find(({ snapshot }) => snapshot.id === id);
  if (link !== undefined) return toPlan(linked, link);
  const reason = linked.broken.find(({ snapshot }) => snapshot.id === id)?.reason;
  return { refusal: `The snapshot cannot be restored. ${reason ?? 'It is not one of a database.'}` };
}

const RANGES_MAX = 5;

/** An instant, within the chain of a snapshot: the same server, and the same branch of its history. */
export function planInstant<S extends ChainSnapshot>(
  snapshots: readonly S[],
  id: string,
  at: Date,
): RestorePlan<S> {
  const chosen = snapshots.find((each) => each.id === id);
  if (chosen === undefined) return { refusal: 'The snapshot is not one of a database.' };
  const { engine } = chosen.details;
  if (engine === 'mariadb') {
    return { refusal: 'Backups of MariaDB are restored as they are: no point in time can be chosen.' };
  }
  const own = snapshots.filter(({ details }) => seriesOf(details) === seriesOf(chosen.details));
  const before = (details: DatabaseDetails) =>
    (instantOf(details.recoverableFrom) ?? Infinity) <= at.getTime();
  const linked = linkUp(own, before);
  const link = linked.links.find(
    ({ snapshot }) =>
      isLog(snapshot) &&
      (instantOf(snapshot.details.recoverableTo) ?? Number.NEGATIVE_INFINITY) >= at.getTime(),
  );
  if (link !== undefined) return toPlan(linked, link);
  const { chains } = chainsOf(own);
  const ranges = chains
    .flatMap((chain) => chain.ranges)
    .map(({ from, to }) => `${from.toISOString()} to ${to.toISOString()}`);
  const more = ranges.length > RANGES_MAX ? ` and ${ranges.length - RANGES_MAX} more` : '';
  return {
    refusal:
      ranges.length === 0
        ? 'No point in time can be restored: there is no log that continues a full backup.'
        : `This instant cannot be restored. What can be: ${ranges.slice(0, RANGES_MAX).join(', ')}${more}.`,
  };
}

function toPlan<S extends ChainSnapshot>(linked: Linked<S>, link: Link<S>): RestorePlan<S> {
  return { path: pathTo(linked, link).map(({ snapshot }) => snapshot) };
}

import type { DatabaseDetails } from '../../../protocol/index.ts';
import { type ChainSnapshot, groupsOf, type Link, type Linked, linkUp, pathTo, seriesOf } from './chains.ts';

/** What can be restored from the backups of databases: which instants, and from which snapshots. */

/** A full backup, and everything that can be restored with it. */
export interface Chain<S extends ChainSnapshot = ChainSnapshot> {
  full: S;
  /** The full one first, in the order of positions. */
  snapshots: S[];
  /** Every instant in these can be restored, both ends included. */
  ranges: { from: Date; to: Date }[];
}

export interface Chains<S extends ChainSnapshot = ChainSnapshot> {
  chains: Chain<S>[];
  broken: { snapshot: S; reason: string }[];
}

/** The newest chain first. */
export function chainsOf<S extends ChainSnapshot>(snapshots: readonly S[]): Chains<S> {
  const linked = linkUp(snapshots);
  const members = new Map<string, Link<S>[]>();
  const roots = new Map<string, string>();
  for (const link of linked.links) {
    const needed = linked.needs.get(link.snapshot.id) ?? null;
    // What is needed comes first, so its root is known.
    const root = needed === null ? link.snapshot.id : (roots.get(needed.snapshot.id) ?? '');
    roots.set(link.snapshot.id, root);
    members.set(root, [...(members.get(root) ?? []), link]);
  }
  const logs = groupsOf(
    linked.links.filter(({ snapshot }) => isLog(snapshot)),
    ({ snapshot }) => seriesOf(snapshot.details),
  );
  const chains = [...members.values()].flatMap((links) => {
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

export function instantOf(text: string | null): number | undefined {
  const ms = text === null ? Number.NaN : Date.parse(text);
  return Number.isFinite(ms) ? ms : undefined;
}

/** The snapshots that a restore applies, in their order, or why there is none. */
export type RestorePlan<S extends ChainSnapshot> = { path: S[] } | { refusal: string };

/** A snapshot as it is: with it, everything that it needs. */
export function planSnapshot<S extends ChainSnapshot>(snapshots: readonly S[], id: string): RestorePlan<S> {
  const linked = linkUp(snapshots);
  const link = linked.links.find(({ snapshot }) => snapshot.id === id);
  if (link !== undefined) return toPlan(linked, link);
  const reason = linked.broken.find(({ snapshot }) => snapshot.id === id)?.reason;
  return { refusal: `The snapshot cannot be restored. ${reason ?? 'It is not one of a database.'}` };
}

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
  return {
    refusal:
      ranges.length === 0
        ? 'No point in time can be restored: there is no log that continues a full backup.'
        : `This instant cannot be restored. What can be: ${ranges.slice(0, 5).join(', ')}.`,
  };
}

function toPlan<S extends ChainSnapshot>(linked: Linked<S>, link: Link<S>): RestorePlan<S> {
  return { path: pathTo(linked, link).map(({ snapshot }) => snapshot) };
}

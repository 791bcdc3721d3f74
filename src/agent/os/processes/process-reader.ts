import type { MachineProcess, ProcessState } from '../../../protocol/index.ts';
import type { Sources } from '../machine-sources.ts';

/** A process at one moment: what is cheap to read of all of them. */
export interface RunningProcess {
  pid: number;
  name: string;
  /** Processor time since its start. */
  cpuSeconds: number;
  ramBytes: number;
}

/** The same with what identifies it. */
export interface IdentifiedProcess extends RunningProcess {
  parentPid: number;
  /** In ms since 1970; undefined if the system does not say it. */
  startedAt: number | undefined;
  state?: ProcessState | undefined;
  /** The system stops without it. */
  isCritical?: boolean;
}

/** What costs more to read, and is read for the listed processes only. */
export type ProcessDetails = Pick<MachineProcess, 'commandLine' | 'user'> & {
  /** The whole name, where the system cuts it. */
  name?: string;
};

/** How the processes of one system are read. */
export interface ProcessReader {
  /** All processes. Throws if they cannot be read, which must not look like a machine without processes. */
  read(sources: Sources): Promise<IdentifiedProcess[]>;
  /** A process that has ended meanwhile has none. */
  details(
    sources: Sources,
    processes: readonly IdentifiedProcess[],
  ): Promise<ReadonlyMap<number, ProcessDetails>>;
}

/** `/proc` has the start of the machine in whole seconds, which may change by one when its clock is set. */
const SAME_START_MS = 2000;

/** Whether two start times with the same number are those of one process. What is not known is not the same. */
export const isSameStart = (one: number | undefined, other: number | undefined): boolean =>
  one !== undefined && other !== undefined && Math.abs(one - other) <= SAME_START_MS;

/** The numbers of a process and of all that started it, up to the first one of the system. */
export function withAncestors(pid: number, all: readonly IdentifiedProcess[]): Set<number> {
  const known = new Map(all.map((one) => [one.pid, one]));
  const found = new Set([pid]);
  for (let child = known.get(pid); child !== undefined; ) {
    const parent = known.get(child.parentPid);
    // Windows keeps the number of a parent that has ended, which may be that of a later process now.
    const isLater = (parent?.startedAt ?? 0) > (child.startedAt ?? Number.POSITIVE_INFINITY) + SAME_START_MS;
    if (parent === undefined || isLater || found.has(parent.pid)) break;
    found.add(parent.pid);
    child = parent;
  }
  return found;
}

/** Those that use the most: half of them by processor, the others by memory. */
export function largest<P extends { pid: number; cpuPercent?: number | undefined; ramBytes: number }>(
  all: readonly P[],
  max: number,
): P[] {
  const byCpu = all.toSorted((a, b) => (b.cpuPercent ?? 0) - (a.cpuPercent ?? 0) || b.ramBytes - a.ramBytes);
  if (all.length <= max) return byCpu;
  const kept = new Set(byCpu.slice(0, Math.floor(max / 2)));
  for (const one of all.toSorted((a, b) => b.ramBytes - a.ramBytes)) {
    if (kept.size >= max) break;
    kept.add(one);
  }
  return byCpu.filter((one) => kept.has(one));
}

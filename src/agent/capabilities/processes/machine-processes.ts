import os from 'node:os';
import { clock } from '../../../clock.ts';
import {
  COMMAND_LINE_MAX,
  type EndedProcess,
  type MachineProcess,
  PROCESS_NAME_MAX,
  LISTED_PROCESSES_MAX,
} from '../../../protocol/index.ts';
import { printable, Reading } from '../../core/plain-text.ts';
import { percent } from '../../os/machine.ts';
import { machineSources, type Sources } from '../../os/machine-sources.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import { endProcess, type ProcessSignals, systemSignals } from './end-process.ts';
import { LINUX_PROCESSES } from '../../os/processes/linux.ts';
import { MACOS_PROCESSES } from '../../os/processes/macos.ts';
import {
  type IdentifiedProcess,
  isSameStart,
  largest,
  type ProcessDetails,
  type ProcessReader,
  withAncestors,
} from '../../os/processes/process-reader.ts';
import { WINDOWS_PROCESSES } from '../../os/processes/windows.ts';

const READERS: Readonly<Record<Sources['os'], ProcessReader>> = {
  linux: LINUX_PROCESSES,
  macos: MACOS_PROCESSES,
  windows: WINDOWS_PROCESSES,
};

/** Between the two readings from which the use of the processors is calculated. */
const BETWEEN_MS = 1000;

const DETAILS_MS = 12_000;
const NO_DETAILS: ReadonlyMap<number, ProcessDetails> = new Map();

/** The processes of a machine, as live queries read and end them. A port, for simulated machines. */
export interface Processes {
  list(signal: AbortSignal): Promise<{ processes: readonly MachineProcess[]; total: number }>;
  /** @param isLate  whether the time for the answer is over */
  end(wanted: { pid: number; startedAt: string }, isLate: () => boolean): Promise<EndedProcess>;
}

export function processHandlers(processes: Processes): LiveHandlers {
  return {
    'processes.list': async (_payload, { signal, timeUp, row }) => {
      const { processes: listed, total } = await processes.list(AbortSignal.any([signal, timeUp]));
      for (const one of listed) await row(one);
      return { total };
    },
    'processes.end': (wanted, { signal, timeUp }) =>
      processes.end(wanted, () => signal.aborted || timeUp.aborted),
  };
}

/** The processes of this machine. */
export class MachineProcesses implements Processes {
  readonly #sources: (signal?: AbortSignal) => Sources;
  readonly #signals: ProcessSignals;
  readonly #betweenMs: number;

  constructor({
    sources = machineSources,
    signals,
    betweenMs = BETWEEN_MS,
  }: { sources?: (signal?: AbortSignal) => Sources; signals?: ProcessSignals; betweenMs?: number } = {}) {
    this.#sources = sources;
    this.#signals = signals ?? systemSignals(sources().os === 'windows');
    this.#betweenMs = betweenMs;
  }

  async list(signal: AbortSignal): Promise<{ processes: MachineProcess[]; total: number }> {
    const sources = this.#sources(signal);
    const reader = READERS[sources.os];
    const before = new Map((await reader.read(sources)).map((one) => [one.pid, one]));
    const startedAt = clock.monotonic();
    await clock.sleep(this.#betweenMs, { signal });
    const now = await reader.read(sources);
    const ms = clock.monotonic() - startedAt;
    const measured = now.map((one) => ({ ...one, cpuPercent: cpuPercentOf(one, before.get(one.pid), ms) }));
    const kept = largest(measured, LISTED_PROCESSES_MAX);
    // What is known without them is worth showing, also if one of them cannot be read and hangs.
    const details =
      (await new Reading().from('details', () => reader.details(sources, kept), DETAILS_MS)) ?? NO_DETAILS;
    signal.throwIfAborted();
    const own = withAncestors(this.#signals.ownPid, now);
    return {
      processes: kept.map((one) =>
        shown(one, details.get(one.pid) ?? {}, one.isCritical === true || own.has(one.pid)),
      ),
      total: now.length,
    };
  }

  async end(wanted: { pid: number; startedAt: string }, isLate: () => boolean): Promise<EndedProcess> {
    const sources = this.#sources();
    const reader = READERS[sources.os];
    let user: string | undefined;
    const read = async () => {
      const all = await reader.read(sources);
      const found = all.filter(({ pid }) => pid === wanted.pid);
      user = (await reader.details(sources, found).catch(() => undefined))?.get(wanted.pid)?.user;
      return all;
    };
    const { process, ...ended } = await endProcess(wanted, { read, signals: this.#signals, isLate });
    return {
      ...ended,
      name: printable(process.name, PROCESS_NAME_MAX),
      ...(user === undefined ? {} : { user: printable(user, PROCESS_NAME_MAX) }),
    };
  }
}

function cpuPercentOf(
  now: IdentifiedProcess,
  before: IdentifiedProcess | undefined,
  ms: number,
): number | undefined {
  // Another process may have got the number of one that has ended.
  if (before === undefined || !(ms > 0) || !isSameStart(now.startedAt, before.startedAt)) return undefined;
  const processors = Math.max(1, os.availableParallelism());
  return percent((Math.max(0, now.cpuSeconds - before.cpuSeconds) * 1000) / ms / processors);
}

function shown(
  {
    pid,
    parentPid,
    name,
    cpuPercent,
    ramBytes,
    startedAt,
    state,
  }: IdentifiedProcess & {
    cpuPercent: number | undefined;
  },
  { commandLine, user, name: wholeName = name }: ProcessDetails,
  isProtected: boolean,
): MachineProcess {
  return {
    pid,
    parentPid,
    name: printable(wholeName, PROCESS_NAME_MAX),
    ...(commandLine === undefined ? {} : { commandLine: printable(commandLine, COMMAND_LINE_MAX) }),
    ...(user === undefined ? {} : { user: printable(user, PROCESS_NAME_MAX) }),
    ...(cpuPercent === undefined ? {} : { cpuPercent }),
    memoryBytes: Math.round(ramBytes),
    ...(startedAt === undefined ? {} : { startedAt: new Date(startedAt).toISOString() }),
    ...(state === undefined ? {} : { state }),
    ...(isProtected ? { isProtected } : {}),
  };
}

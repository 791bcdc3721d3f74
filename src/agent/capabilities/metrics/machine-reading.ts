import os from 'node:os';
import type { MetricSample } from '../../../protocol/index.ts';
import { Reading } from '../../core/plain-text.ts';
import { cpuTimes, diskSpace, percent } from '../../os/machine.ts';
import type { Sources } from '../inventory/sources.ts';
import { readLinux } from './linux.ts';
import { readMacos } from './macos.ts';
import { readWindows } from './windows.ts';

/** What a machine says of itself at one moment. What cannot be read is undefined, and never 0. */
export interface MachineReading {
  /** Counters that only grow while the machine runs. */
  counters: {
    networkReceived?: number | undefined;
    networkSent?: number | undefined;
    diskRead?: number | undefined;
    diskWritten?: number | undefined;
  };
  swapPercent?: number | undefined;
  volumes?: NonNullable<MetricSample['volumes']> | undefined;
  processes?: readonly RunningProcess[] | undefined;
}

export interface RunningProcess {
  pid: number;
  name: string;
  /** Processor time since its start. */
  cpuSeconds: number;
  ramBytes: number;
}

/** Reads what needs files or programs of the system. */
export type MachineReader = (sources: Sources, reading: Reading) => Promise<MachineReading>;

const READERS: Readonly<Record<Sources['os'], MachineReader>> = {
  linux: readLinux,
  macos: readMacos,
  windows: readWindows,
};

/** On Windows all of it takes a PowerShell, which is started for every fifth sample only. */
const READ_EVERY: Readonly<Record<Sources['os'], number>> = { linux: 1, macos: 1, windows: 5 };

export type Figures = Omit<MetricSample, 'at'>;

/** Takes samples of a machine. Rates are measured between two of them, so the last readings are kept. */
export class MachineSampler {
  readonly #sources: Sources;
  readonly #monotonicMs: () => number;
  #cpu = cpuTimes();
  #last: { reading: MachineReading; at: number } | undefined;
  #count = 0;

  constructor(sources: Sources, monotonicMs: () => number) {
    this.#sources = sources;
    this.#monotonicMs = monotonicMs;
  }

  async sample(): Promise<Figures> {
    const reading = new Reading();
    const figures = {
      ...this.#cpuFigures(),
      ramPercent: percent(1 - os.freemem() / os.totalmem()),
      // Node has no load on Windows, and says 0.
      load: this.#sources.os === 'windows' ? undefined : os.loadavg()[0],
      uptimeSeconds: await reading.from('uptime', () => Math.round(os.uptime())),
    };
    const isDue = this.#count % READ_EVERY[this.#sources.os] === 0;
    this.#count += 1;
    if (!isDue) return figures;
    const found = await READERS[this.#sources.os](this.#sources, reading);
    const at = this.#monotonicMs();
    const last = this.#last;
    this.#last = { reading: found, at };
    return {
      ...figures,
      swapPercent: found.swapPercent,
      volumes: found.volumes ?? (await this.#systemVolume()),
      ...(last === undefined ? {} : figuresBetween(last.reading, found, at - last.at, machine())),
    };
  }

  #cpuFigures(): Pick<Figures, 'cpuPercent'> {
    const now = cpuTimes();
    const { total, idle } = this.#cpu;
    this.#cpu = now;
    return now.total > total ? { cpuPercent: percent(1 - (now.idle - idle) / (now.total - total)) } : {};
  }

  /** Where volumes cannot be listed, the system's own is known all the same. */
  async #systemVolume(): Promise<Figures['volumes']> {
    const disk = await diskSpace();
    if (disk === undefined) return undefined;
    const volume = this.#sources.os === 'windows' ? 'C:' : '/';
    return [{ volume, usedBytes: disk.total - disk.free, totalBytes: disk.total }];
  }
}

const machine = () => ({ processors: Math.max(1, os.availableParallelism()), ramBytes: os.totalmem() });

/** A machine that was asleep has no rate for that time. */
const APART_MAX_MS = 15 * 60_000;
/** A process that uses less of the machine is not named. */
const BUSY_PERCENT = 10;
const PROCESSES_NAMED = 5;

/** Rates, and the busiest processes, between two readings. */
export function figuresBetween(
  before: MachineReading,
  after: MachineReading,
  ms: number,
  { processors, ramBytes }: { processors: number; ramBytes: number },
): Figures {
  if (!(ms > 0) || ms > APART_MAX_MS) return {};
  const rate = (counter: keyof MachineReading['counters']) => {
    const [earlier, later] = [before.counters[counter], after.counters[counter]];
    // A counter that has fallen began anew, such as one of an interface that was removed.
    if (earlier === undefined || later === undefined || later < earlier) return undefined;
    return Math.round(((later - earlier) * 1000) / ms);
  };
  const known = new Map(before.processes?.map((one) => [one.pid, one]));
  const busy = (after.processes ?? [])
    .map(({ pid, name, cpuSeconds, ramBytes: ram }) => {
      const earlier = known.get(pid);
      // Another process may have got the number of one that has ended.
      const used = earlier?.name === name ? cpuSeconds - earlier.cpuSeconds : 0;
      return {
        process: name,
        cpuPercent: percent((Math.max(0, used) * 1000) / ms / processors),
        ramPercent: percent(ram / ramBytes),
      };
    })
    .filter(({ cpuPercent, ramPercent }) => cpuPercent >= BUSY_PERCENT || ramPercent >= BUSY_PERCENT)
    .sort((a, b) => b.cpuPercent + b.ramPercent - a.cpuPercent - a.ramPercent)
    .slice(0, PROCESSES_NAMED);
  return {
    networkReceivedPerSecond: rate('networkReceived'),
    networkSentPerSecond: rate('networkSent'),
    diskReadPerSecond: rate('diskRead'),
    diskWrittenPerSecond: rate('diskWritten'),
    ...(busy.length === 0 ? {} : { processes: busy }),
  };
}

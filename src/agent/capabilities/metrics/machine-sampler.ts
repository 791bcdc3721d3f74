import os from 'node:os';
import { Reading } from '../../core/plain-text.ts';
import { cpuTimes, diskSpace, percent } from '../../os/machine.ts';
import type { Sources } from '../../os/machine-sources.ts';
import { readLinux } from './linux.ts';
import { type Figures, figuresBetween, type MachineReader, type MachineReading } from './machine-reading.ts';
import { readMacos } from './macos.ts';
import { readWindows } from './windows.ts';

const READERS: Readonly<Record<Sources['os'], MachineReader>> = {
  linux: readLinux,
  macos: readMacos,
  windows: readWindows,
};

/** On Windows all of it takes a PowerShell, which is started for every fifth sample only. */
const READ_EVERY: Readonly<Record<Sources['os'], number>> = { linux: 1, macos: 1, windows: 5 };

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

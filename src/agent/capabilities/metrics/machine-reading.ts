import type { MetricSample } from '../../../protocol/index.ts';
import type { Reading } from '../../core/plain-text.ts';
import { percent } from '../../os/machine.ts';
import type { Sources } from '../../os/machine-sources.ts';
import type { RunningProcess } from '../../os/processes/process-reader.ts';

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

/** A sample without its time. */
export type Figures = Omit<MetricSample, 'at'>;

/** Reads what needs files or programs of the system. */
export type MachineReader = (sources: Sources, reading: Reading) => Promise<MachineReading>;

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

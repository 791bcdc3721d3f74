import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

/**
 * What work costs, in milliseconds of processor time: the same on a busy machine, where the time of day says how busy it
 * is.
 */
export async function processorMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** The longest that the work keeps everything else in this process waiting, in milliseconds of processor time. */
export async function blockedMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = process.cpuUsage();
  const look = () => {
    const { user, system } = process.cpuUsage(last);
    longest = Math.max(longest, (user + system) / 1000);
    last = process.cpuUsage();
  };
  const timer = setInterval(look, 5);
  try {
    await work();
    look();
  } finally {
    clearInterval(timer);
  }
  return longest;
}

/** The processor time that another process on this machine has used so far, in ms; elsewhere than on Linux the time of day. */
export function processorMsOf(pid: number): number {
  if (process.platform !== 'linux') return performance.now();
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  // utime and stime, in hundredths of a second.
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

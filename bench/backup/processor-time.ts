import { readFile } from 'node:fs/promises';

export interface Cost {
  seconds: number;
  cpuSeconds: number;
}

const TICKS_PER_SECOND = 100;

/** Processor time of a process and of those of its children that have ended, as the system counts it. */
export async function cpuOf(pid: number | undefined): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0) / TICKS_PER_SECOND;
}

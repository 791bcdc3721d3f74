import { readFileSync } from 'node:fs';

/** Resident memory of these processes together, in KiB, as Linux counts it. */
export function residentKiB(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const [, size] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return sum + Number(size ?? 0);
  }, 0);
}

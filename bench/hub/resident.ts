import { readFileSync } from 'node:fs';

/** The total resident memory of these processes in KiB, as Linux reports it. */
export function residentKiB(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const [, size] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return sum + Number(size ?? 0);
  }, 0);
}

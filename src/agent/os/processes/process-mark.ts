import { readFile } from 'node:fs/promises';
import { runSystemProgram } from './system-program.ts';

/** A process that can be distinguished from a later one with the same number. */
export interface KnownProcess {
  pid: number;
  /** The start time as the system formats it; empty where it is unknown. */
  mark: string;
}

/** When the process was started; empty where it does not exist or the system does not report it. */
export async function processMark(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return await linuxMark(pid);
    if (process.platform === 'win32') {
      const command = `(Get-Process -Id ${pid}).StartTime.ToFileTimeUtc()`;
      return (
        await runSystemProgram('powershell', ['-NoProfile', '-NonInteractive', '-Command', command])
      ).trim();
    }
    return (await runSystemProgram('ps', ['-o', 'lstart=', '-p', String(pid)])).trim();
  } catch {
    return '';
  }
}

/** Field 22 counts ticks since the machine was started, so the mark also holds the id of that start. */
async function linuxMark(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  // The name of the program is in brackets and may itself hold brackets and spaces.
  const [state = '', ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A zombie has ended; only its parent has not collected its exit code yet.
  return state === 'Z' || state === 'X' ? '' : `${boot.trim().slice(0, 8)}-${fields[18] ?? ''}`;
}

export async function isRunning({ pid, mark }: KnownProcess): Promise<boolean> {
  return isAlive(pid) && (await processMark(pid)) === mark;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

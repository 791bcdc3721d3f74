import { readFile } from 'node:fs/promises';
import { runSystemProgram } from './system-program.ts';

/** One process, told apart from a later one that was given the same number. */
export interface KnownProcess {
  pid: number;
  /** When it was started, as the system writes it; empty where the system does not say. */
  mark: string;
}

/** When the process was started; empty where there is none, or the system does not say. */
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

/** Field 22 of its line counts ticks since the machine was started, so that the start itself belongs to the mark. */
async function linuxMark(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  // The name of the program is in brackets and may hold anything, brackets and blanks too.
  const [state = '', ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A process that has ended and that nobody has asked about runs no more.
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
    // Somebody else's process is alive too.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

import { spawn } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Account } from './account.ts';

/** What Postgres programs get to see: nothing of ours, so that no PG* or LD_* setting changes what they do. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

export async function run(
  command: string,
  args: string[],
  account?: Account,
): Promise<{ code: number | string; output: string }> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(command, args, {
      ...account,
      cwd: workingDir,
      env: cleanEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      windowsHide: true,
    });
    const collect = (chunk: Buffer): void => {
      output += chunk.toString('utf8');
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.once('error', (error) => resolve({ code: 'error', output: error.message }));
    child.once('close', (code, signal) => resolve({ code: code ?? signal ?? 'unknown', output }));
  });
}

// Ours can be a folder that the other user may not enter.
export const workingDir = process.platform === 'win32' ? undefined : '/';

export function lastLines(text: string, count = 5): string {
  const lines = text.split('\n').map((line) => line.trim());
  const last = lines.filter((line) => line !== '').slice(-count);
  return last.length === 0 ? 'it wrote nothing' : last.join(' | ');
}

/** A zombie has ended, but its pid still answers signals until its parent, or init, has taken note. */
export async function processState(pid: number): Promise<'gone' | 'zombie' | 'alive'> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'gone';
  }
  if (process.platform === 'linux') {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    if (stat === undefined) return 'gone';
    const state = stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
    return state === 'Z' || state === 'X' ? 'zombie' : 'alive';
  }
  if (process.platform === 'win32') return 'alive';
  const { output } = await run('/bin/ps', ['-o', 'stat=', '-p', String(pid)]);
  return output.trim().startsWith('Z') ? 'zombie' : 'alive';
}

/** Whether the pid is the Postgres of this cluster, and not another process that has been given its old number. */
export async function isPostmasterOf(pid: number, clusterDir: string): Promise<boolean> {
  if (process.platform === 'win32') return true;
  if (process.platform === 'linux') {
    // A postmaster works in its data folder. Another user's process hides its folder, and so can not be ours.
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    return cwd === clusterDir && basename(command.split('\0')[0] ?? '') === 'postgres';
  }
  const { output } = await run('/bin/ps', ['-o', 'command=', '-p', String(pid)]);
  return output.includes('postgres') && output.includes(clusterDir);
}

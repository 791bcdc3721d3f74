import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

/**
 * The full path of a system program. Windows searches the current folder first for a bare name, so anyone who can write
 * there could replace the program.
 */
export function systemProgram(name: string, platform: NodeJS.Platform = process.platform): string {
  if (platform !== 'win32') return name;
  const root = process.env['SystemRoot'] ?? String.raw`C:\Windows`;
  const folder = name === 'powershell' ? String.raw`System32\WindowsPowerShell\v1.0` : 'System32';
  return path.win32.join(root, folder, `${name}.exe`);
}

/** Runs a system program and returns its output. A port, for tests of other systems. */
export type RunSystemProgram = (
  name: string,
  args: readonly string[],
  env?: Record<string, string>,
) => Promise<string>;

const PROGRAM_MS = 30_000;

export const runSystemProgram: RunSystemProgram = async (name, args, env = {}) => {
  const { stdout } = await promisify(execFile)(systemProgram(name), [...args], {
    timeout: PROGRAM_MS,
    windowsHide: true,
    maxBuffer: 1_000_000,
    env: { ...process.env, LC_ALL: 'C', ...env },
  });
  return stdout;
};

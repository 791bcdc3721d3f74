import { execFile, spawnSync } from 'node:child_process';
import type { Context } from 'mocha';
import { skipWithout } from '../../../../support/skip-without.ts';

/** Podman, which takes the same files and options as Docker and needs no service that runs all the time. */

export interface Ran {
  code: number;
  /** Standard output and errors. */
  output: string;
}

/** Skips visibly without it: `apt-get install podman runc netavark aardvark-dns iptables`. */
export function needsPodman(test: Context): void {
  const isThere = (name: string) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
  skipWithout(
    test,
    process.getuid?.() === 0 && ['podman', 'runc', 'iptables'].every(isThere),
    'root, and podman, runc and iptables',
  );
}

/** Debian's crun refuses machines that have cgroups of both versions. */
const RUNTIME = ['--runtime', 'runc'];
/** What nobody on this machine may raise, also not in a container. */
const HARD_LIMIT = Number(spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).stdout);

/** The options that set a container's limit to this, or to as much of it as this machine allows. */
export const limitOptions = (nofile: number): string[] => {
  const allowed = Number.isNaN(HARD_LIMIT) ? nofile : Math.min(nofile, HARD_LIMIT);
  return ['--ulimit', `nofile=${allowed}:${allowed}`, '--ulimit', 'nproc=20000:20000'];
};

/** Runs a command of podman to its end. */
export function tryPodman(words: readonly string[], { timeoutMs = 120_000 } = {}): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(
      'podman',
      [...RUNTIME, ...words],
      { timeout: timeoutMs, maxBuffer: 64 * 1024 * 1024 },
      (error, out, errors) => {
        const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : -1;
        resolve({ code, output: `${out}${withoutNoise(errors)}` });
      },
    );
  });
}

/** Podman says on each call that a machine has no system log. */
const withoutNoise = (errors: string) => errors.replaceAll(/^failed to connect to syslog.*\n/gm, '');

/** The output of a command that succeeds. */
export async function podman(
  words: readonly string[],
  options: { timeoutMs?: number } = {},
): Promise<string> {
  const { code, output } = await tryPodman(words, options);
  if (code !== 0) throw new Error(`podman ${words.join(' ')} ended with ${code}:\n${output.slice(-4000)}`);
  return output.trim();
}

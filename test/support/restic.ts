import { spawn, spawnSync } from 'node:child_process';
import type { Context } from 'mocha';

/** Debian's restic, against which the backup store has to prove itself. */
export interface ResticRun {
  code: number | null;
  stdout: string;
  stderr: string;
}

export const RESTIC_PASSWORD = 'a password that only tests use';

/** Skips what needs restic where there is none, and fails there in CI, which installs it. */
export function needsRestic(test: Context): void {
  if (spawnSync('restic', ['version']).status === 0) return;
  if (process.env['CI'] === 'true') throw new Error('restic is missing: apt-get install restic');
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn('      skipped: restic is not installed ("apt-get install restic")');
  test.skip();
}

export interface Restic {
  run(...args: string[]): Promise<ResticRun>;
  /** Throws with what restic has written where it fails. */
  ok(...args: string[]): Promise<string>;
  start(...args: string[]): { child: ReturnType<typeof spawn>; ended: Promise<ResticRun> };
}

/** @param cache  a folder, because its cache has to be kept apart from that of other devices */
export function resticFor(repository: string, cache: string, password = RESTIC_PASSWORD): Restic {
  const start: Restic['start'] = (...args) => {
    const child = spawn('restic', [...args, '--cache-dir', cache], {
      env: {
        PATH: process.env['PATH'],
        RESTIC_REPOSITORY: repository,
        RESTIC_PASSWORD: password,
        HOME: cache,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const texts = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.stderr += text));
    const ended = new Promise<ResticRun>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve({ code, ...texts }));
    });
    return { child, ended };
  };
  const run: Restic['run'] = (...args) => start(...args).ended;
  return {
    start,
    run,
    async ok(...args) {
      const { code, stdout, stderr } = await run(...args);
      if (code !== 0) throw new Error(`restic ${args[0]} ended with ${code}: ${stderr}${stdout}`);
      return stdout;
    },
  };
}

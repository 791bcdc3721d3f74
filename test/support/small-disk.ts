import { spawnSync } from 'node:child_process';
import type { Context } from 'mocha';

/** A small file system in memory, in place of a disk that is soon full. */
export interface SmallDisk {
  resize(size: string): void;
  remove(): void;
}

/** `undefined` where it cannot be mounted. @param size  such as `4m` */
export function mountSmallDisk(folder: string, size: string): SmallDisk | undefined {
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'tmpfs', folder]);
  if (mounted.status !== 0) return undefined;
  return {
    resize(to) {
      const done = spawnSync('mount', ['-o', `remount,size=${to}`, folder]);
      if (done.status !== 0) throw new Error(`tmpfs could not be resized: ${String(done.stderr)}`);
    },
    // Also where a program still has a file open there.
    remove: () => void spawnSync('umount', ['--lazy', folder]),
  };
}

/** Skips what needs a small disk where there is none, and fails there in CI. */
export function needsSmallDisk(test: Context, disk: SmallDisk | undefined): SmallDisk {
  if (disk !== undefined) return disk;
  if (process.env['CI'] === 'true') throw new Error('tmpfs could not be mounted');
  // oxlint-disable-next-line no-console -- a test that does not run has to say so
  console.warn('      skipped: only root can mount a small file system');
  return test.skip();
}

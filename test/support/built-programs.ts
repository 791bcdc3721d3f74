import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { bundlePrograms } from '../../src/packaging/bundle-programs.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Names the folder of built programs that the test runner has made, to the test processes. */
export const BUILT_PROGRAMS_VARIABLE = 'MUSTER_TEST_PROGRAMS';

export interface BuiltPrograms {
  folder: string;
  remove(): Promise<void>;
}

/** Builds our programs as `npm run build` does, into a folder of their own. */
export async function buildPrograms(): Promise<BuiltPrograms> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-built-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
    const words = [tsc, '-p', 'tsconfig.build.json', '--outDir', path.join(folder, 'dist')];
    await promisify(execFile)(process.execPath, words, { cwd: ROOT });
    await bundlePrograms(['src/cli/muster.ts'], folder);
    await copyFile(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
    for (const part of ['node_modules', 'migrations']) {
      await symlink(path.join(ROOT, part), path.join(folder, part));
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return { folder, remove };
}

/** The arguments of Node that start one of our programs as it was built for the run; otherwise from its source. */
export function builtArguments(entry: string): string[] {
  const built = process.env[BUILT_PROGRAMS_VARIABLE];
  if (built === undefined) return [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, entry)];
  return [path.join(built, 'dist', entry.replace(/\.ts$/, '.js'))];
}

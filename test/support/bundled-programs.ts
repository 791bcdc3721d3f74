import { copyFile, mkdtemp, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundlePrograms as bundleInto } from '../../src/packaging/bundle-programs.ts';

const ROOT = path.join(import.meta.dirname, '../..');

/** Names the folder of bundled programs that the test runner has made, to the test processes. */
export const BUNDLED_PROGRAMS_VARIABLE = 'MUSTER_TEST_BUNDLES';

/** What tests start often, and what these start themselves. */
const ENTRIES = [
  'src/main.ts',
  'src/agent/main.ts',
  'src/cli/muster.ts',
  'src/cli/rotate-secrets.ts',
  'src/features/audit/verify-worker.ts',
];

/**
 * Our programs in a few files each. Node reads and compiles less for them than for the two thousand modules of a build,
 * and tests start hundreds. What a build is, `test/programs/e2e/built-program` and `test/programs/smoke/supported-nodes` show.
 *
 * @returns their folder, which is a temporary one
 */
export async function bundlePrograms(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-bundled-'));
  await bundleInto(ENTRIES, folder);
  await copyFile(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
  for (const part of ['node_modules', 'migrations']) {
    await symlink(path.join(ROOT, part), path.join(folder, part));
  }
  return folder;
}

/**
 * The arguments of Node that start one of our programs: as it was bundled for the run, or from its source where a test
 * file is run by itself.
 * @param entry  its TypeScript source, below the root of the repository
 */
export function programArguments(entry: string): string[] {
  const bundled = process.env[BUNDLED_PROGRAMS_VARIABLE];
  if (bundled === undefined || !ENTRIES.includes(entry)) {
    return [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, entry)];
  }
  return [path.join(bundled, 'dist', entry.replace(/\.ts$/, '.js'))];
}

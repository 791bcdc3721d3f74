import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { build, type Plugin } from 'esbuild';

/** Programs as one file of CommonJS, which needs nothing beside it but the runtime. */

const ROOT = path.join(import.meta.dirname, '../..');
/** The oldest line of the runtimes in `runtimes.ts`. */
const RUNTIME = 'node22';

export const ENTRIES = {
  /** The program that upgrades replace. */
  agent: { entry: 'src/agent/main.ts', version: 'src/agent/core/version.ts' },
  /** The main program of the executable, which starts the agent and watches it. */
  watchdog: { entry: 'src/watchdog/main.ts', version: 'src/watchdog/version.ts' },
} as const;

export type Component = keyof typeof ENTRIES;

export interface Bundle {
  version: string;
  code: Buffer;
  /** The npm packages that it contains, as folders. */
  packages: string[];
}

/**
 * Two builds of the same sources are the same bytes, wherever they are made.
 * @param version  in place of the one in the source; for tests of upgrades, which need two releases
 */
export async function bundle(component: Component, version?: string): Promise<Bundle> {
  const { entry, version: versionFile } = ENTRIES[component];
  const source = await readFile(path.join(ROOT, versionFile), 'utf8');
  const written = VERSION.exec(source)?.[2];
  if (written === undefined) throw new Error(`${versionFile} holds no version.`);
  const used = version ?? written;
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'cjs',
    target: RUNTIME,
    charset: 'utf8',
    legalComments: 'none',
    write: false,
    metafile: true,
    logLevel: 'silent',
    // Where the file is published as another version, the server refuses it (`ProgramScan`).
    footer: { js: `/* muster-program ${component} ${used} */` },
    define: {
      MUSTER_IS_PACKAGED: 'true',
      // Without these, `ws` looks for native modules that are not there, and Node warns of it at every start.
      'process.env.WS_NO_BUFFER_UTIL': '"1"',
      'process.env.WS_NO_UTF_8_VALIDATE': '"1"',
    },
    plugins: [withVersion(path.join(ROOT, versionFile), source.replace(VERSION, `$1'${used}'`))],
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error(`The bundle of ${component} is empty.`);
  return {
    version: used,
    code: Buffer.from(output.contents),
    packages: packagesIn(Object.keys(metafile.inputs)),
  };
}

const VERSION = /(export const [A-Z_]+VERSION = )'([^']+)'/;

function withVersion(file: string, contents: string): Plugin {
  return {
    name: 'version',
    setup(building) {
      building.onLoad({ filter: /version\.ts$/ }, (found) =>
        found.path === file ? { contents, loader: 'ts' } : undefined,
      );
    },
  };
}

function packagesIn(inputs: readonly string[]): string[] {
  const folders = inputs.flatMap((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []);
  return [...new Set(folders)].sort().map((folder) => path.join(ROOT, folder));
}

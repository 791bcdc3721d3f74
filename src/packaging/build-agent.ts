import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile, chmod, copyFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { UnpackedRuntimes, type Platform, PLATFORMS, runtimeForBuilding, runtimeOf } from './runtimes.ts';
import { build, type Plugin } from 'esbuild';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';

/**
 * Executables that contain the Node runtime, a main program and the script of the agent (Node's "single executables").
 */

const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const RESOURCE = 'NODE_SEA_BLOB';
const MACOS_SEGMENT = 'NODE_SEA';
const STEP_MS = 120_000;

const execute = promisify(execFile);

interface ExecutableParts {
  /** The main program of the executable. */
  main: Buffer;
  /** The asset `agent`, for machines where no other release of the script is installed. */
  agent: Buffer;
}

interface BuildPlace {
  /** A folder for the files of this build, which the caller removes. */
  work: string;
  runtimes: UnpackedRuntimes;
}

/** @returns notes about the result for the operator */
async function buildExecutable(
  platform: Platform,
  parts: ExecutableParts,
  file: string,
  { work, runtimes }: BuildPlace,
): Promise<string[]> {
  const notes: string[] = [];
  await copyFile(await runtimes.program(runtimeOf(platform)), file);
  await chmod(file, 0o755);
  // Strip first: an executable that is stripped after the injection does not start.
  if (!(await strip(platform, file))) notes.push('not stripped, because this machine has no strip for it');
  const maker = await runtimes.program(runtimeForBuilding(platform));
  await inject(file, await prepareBlob(maker, parts, path.join(work, platform)), PLATFORMS[platform].os);
  if (PLATFORMS[platform].os !== 'linux') notes.push('not signed; sign it before you publish it');
  return notes;
}

/** Without code cache and snapshot, which work only in the runtime that made them. */
async function prepareBlob(maker: string, { main, agent }: ExecutableParts, folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'main.cjs'), main);
  await writeFile(path.join(folder, 'agent.cjs'), agent);
  // The blob contains the path of the main program as it is written here, so that must not depend on the folder.
  const settings = {
    main: 'main.cjs',
    output: 'blob',
    disableExperimentalSEAWarning: true,
    useCodeCache: false,
    useSnapshot: false,
    // Neither the environment nor a signal may make the runtime load other code or open its inspector. Both programs are
    // idle most of the time, so the space for new objects, 32 MB otherwise, is small.
    execArgvExtension: 'none',
    execArgv: ['--disable-sigusr1', '--max-semi-space-size=2'],
    assets: { agent: 'agent.cjs' },
  };
  await writeFile(path.join(folder, 'settings.json'), JSON.stringify(settings));
  const words = ['--experimental-sea-config', 'settings.json'];
  await execute(maker, words, { cwd: folder, timeout: STEP_MS, env: {} });
  return path.join(folder, 'blob');
}

/** Called by its command line, because the library prints irrelevant warnings. */
async function inject(file: string, blob: string, os: string): Promise<void> {
  const postject = createRequire(import.meta.url).resolve('postject/dist/cli.js');
  const words = [postject, file, RESOURCE, blob, '--sentinel-fuse', FUSE];
  if (os === 'macos') words.push('--macho-segment-name', MACOS_SEGMENT);
  await execute(process.execPath, words, { timeout: STEP_MS, maxBuffer: 4_000_000 });
}

/** Removes the symbols of a Linux runtime, an eighth of its size. False if that is not possible here. */
async function strip(platform: Platform, file: string): Promise<boolean> {
  const { os, architecture } = PLATFORMS[platform];
  if (os !== 'linux') return true;
  const foreign = architecture === 'arm64' ? 'aarch64-linux-gnu-strip' : 'x86_64-linux-gnu-strip';
  for (const program of process.arch === architecture ? ['strip', foreign] : [foreign]) {
    try {
      await execute(program, [file], { timeout: STEP_MS });
      return true;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
  }
  return false;
}

/** Bundles a program into one CommonJS file that needs nothing but the runtime. */

const ROOT = path.join(import.meta.dirname, '../..');
/** The oldest line of the runtimes in `runtimes.ts`. */
const RUNTIME = 'node22';

const ENTRIES = {
  /** The program that upgrades replace. */
  agent: { entry: 'src/agent/main.ts', version: 'src/agent/core/version.ts' },
  /** The main program of the executable, which starts the agent and watches it. */
  watchdog: { entry: 'src/watchdog/main.ts', version: 'src/watchdog/version.ts' },
} as const;

type Component = keyof typeof ENTRIES;

interface Bundle {
  version: string;
  code: Buffer;
  /** The npm packages that it contains, as folders. */
  packages: string[];
}

/**
 * Two builds of the same sources are identical, wherever they are made.
 * @param version  replaces the version in the source; for tests of upgrades, which need two releases
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
    // V8 keeps a script with any other character in two bytes for each.
    charset: 'ascii',
    legalComments: 'none',
    write: false,
    metafile: true,
    logLevel: 'silent',
    // If the file is published as another version, the server refuses it (`ProgramScan`).
    footer: { js: `/* muster-program ${component} ${used} */` },
    define: {
      MUSTER_IS_PACKAGED: 'true',
      // Without these, `ws` looks for missing native modules, and Node warns about it at every start.
      'process.env.WS_NO_BUFFER_UTIL': '"1"',
      'process.env.WS_NO_UTF_8_VALIDATE': '"1"',
    },
    plugins: [
      withVersion(path.join(ROOT, versionFile), source.replace(VERSION, `$1'${used}'`)),
      englishOnly,
      definitionsOnly,
      ownWebSocket,
    ],
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

/** Zod's messages in some fifty languages, of which the programs use one, are a fifth of the script. */
const englishOnly: Plugin = {
  name: 'english only',
  setup(building) {
    building.onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path: file }) => ({
      contents: "export { default as en } from './en.js';",
      resolveDir: path.dirname(file),
    }));
  },
};

/**
 * engine.io-client looks for the runtime's own WebSocket when it is loaded, and uses `ws` all the same. That look makes
 * the runtime load its HTTP client and WebAssembly, which stay in memory.
 */
const ownWebSocket: Plugin = {
  name: 'own WebSocket',
  setup(building) {
    building.onLoad({ filter: /engine\.io-client.*[\\/]globals\.node\.js$/ }, async ({ path: file }) => {
      const contents = await readFile(file, 'utf8');
      const changed = contents.replace(
        'globalThisShim = global;',
        'globalThisShim = Object.create(globalThis, { WebSocket: { value: undefined } });',
      );
      if (changed === contents) throw new Error(`${file} is not as this build expects it.`);
      return { contents: changed, loader: 'js' };
    });
  },
};

/** The modules of the protocol only define shapes, so those that a program does not use are left out. */
const definitionsOnly: Plugin = {
  name: 'definitions only',
  setup(building) {
    building.onResolve({ filter: /^\.{1,2}\// }, ({ path: file, resolveDir }) => {
      const wanted = path.resolve(resolveDir, file);
      return path.dirname(wanted).startsWith(path.join(ROOT, 'src/protocol'))
        ? { path: wanted, sideEffects: false }
        : undefined;
    });
  },
};

function packagesIn(inputs: readonly string[]): string[] {
  const folders = inputs.flatMap((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []);
  return [...new Set(folders)].sort().map((folder) => path.join(ROOT, folder));
}

export interface BuildRequest {
  platforms: readonly Platform[];
  /** The folder for the results. */
  out: string;
  /** Replaces the versions in the source; for tests of upgrades. */
  versions?: { agent?: string; watchdog?: string };
  /** The folder of downloaded runtimes. */
  cache?: string;
  report: (line: string) => void;
}

export interface BuildResult {
  /** Names of files in the folder. */
  files: string[];
  failed: Platform[];
}

/**
 * Builds the script of the agent and the executable of each platform, under the names that a release has on GitHub. A
 * platform that cannot be built does not stop the others.
 */
export async function buildAgent({
  platforms,
  out,
  versions,
  cache,
  report,
}: BuildRequest): Promise<BuildResult> {
  await mkdir(out, { recursive: true });
  const work = await mkdtemp(path.join(tmpdir(), 'muster-build-'));
  try {
    const runtimes = new UnpackedRuntimes(path.join(work, 'runtimes'), cache);
    const agent = await bundle('agent', versions?.agent);
    const watchdog = await bundle('watchdog', versions?.watchdog);
    const files: string[] = [];
    const failed: Platform[] = [];
    const licenses = new Map<string, string>();
    for (const platform of platforms) {
      const names = assetNames(platform);
      try {
        const parts = { main: watchdog.code, agent: agent.code };
        const notes = await buildExecutable(platform, parts, path.join(out, names.watchdog), {
          work,
          runtimes,
        });
        // The license of the same version; the packages for Windows contain none.
        licenses.set(await runtimes.license(runtimeForBuilding(platform)), 'Node.js');
        const unknown = isOwnPlatform(platform) ? [] : ['built for another system and not started here'];
        const { size } = await stat(path.join(out, names.watchdog));
        report(
          [`${names.watchdog} ${watchdog.version}, ${megabytes(size)} MB`, ...notes, ...unknown].join('; '),
        );
      } catch (error) {
        failed.push(platform);
        await rm(path.join(out, names.watchdog), { force: true });
        report(`${platform} was not built: ${error instanceof Error ? error.message : String(error)}`);
        continue;
      }
      await writeFile(path.join(out, names.agent), agent.code);
      report(`${names.agent} ${agent.version}, ${Math.round(agent.code.length / 1000)} kB`);
      files.push(names.watchdog, names.agent);
    }
    if (files.length > 0) {
      await writeFile(path.join(out, LICENSES), await licensesOf([agent, watchdog], licenses));
      await writeFile(path.join(out, CHECKSUMS), await checksumsOf(out, [...files, LICENSES]));
      files.push(LICENSES, CHECKSUMS);
    }
    return { files, failed };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const LICENSES = 'THIRD-PARTY-LICENSES.txt';
const CHECKSUMS = 'SHA256SUMS';

/** `muster-<component>-<os>-<architecture>`: the executable is the component `watchdog`, the script is `agent`. */
export function assetNames(platform: Platform): { watchdog: string; agent: string } {
  const { os, architecture } = PLATFORMS[platform];
  return {
    watchdog: `muster-watchdog-${os}-${architecture}${os === 'windows' ? '.exe' : ''}`,
    agent: `muster-agent-${os}-${architecture}.cjs`,
  };
}

/** This machine can start only programs that were built for its platform. */
export function isOwnPlatform(platform: Platform): boolean {
  const { os, architecture } = PLATFORMS[platform];
  return OWN_NAMES[os] === process.platform && architecture === process.arch;
}

const OWN_NAMES = { linux: 'linux', windows: 'win32', macos: 'darwin' } as const;

const megabytes = (bytes: number) => (bytes / 1_000_000).toFixed(1);

/** Checksums of exactly these files, in the format of `sha256sum`. */
async function checksumsOf(folder: string, files: readonly string[]): Promise<string> {
  const lines = await Promise.all(
    [...files].sort().map(async (name) => {
      const hash = createHash('sha256');
      for await (const chunk of createReadStream(path.join(folder, name))) hash.update(chunk as Buffer);
      return `${hash.digest('hex')}  ${name}\n`;
    }),
  );
  return lines.join('');
}

/** The licenses of all bundled packages, which must be distributed with the files. */
async function licensesOf(
  bundles: readonly Bundle[],
  runtimes: ReadonlyMap<string, string>,
): Promise<string> {
  const packages = [...new Set(bundles.flatMap((one) => one.packages))].sort();
  const texts = await Promise.all(
    packages.map(async (folder) => `${nameOf(folder)}\n\n${await licenseOf(folder)}`),
  );
  const nodes = [...runtimes].map(([text, name]) => `${name}\n\n${text}`);
  return [...texts, ...nodes].join(`\n${'-'.repeat(80)}\n`);
}

const nameOf = (folder: string) => folder.split(`node_modules${path.sep}`).at(-1) ?? folder;

const Manifest = z.object({ license: z.string() });

/** Some packages name their license without including its text. */
async function licenseOf(folder: string): Promise<string> {
  const file = (await readdir(folder)).find((entry) => /^(licen[sc]e|copying)/i.test(entry));
  if (file !== undefined) return readFile(path.join(folder, file), 'utf8');
  const manifest = Manifest.safeParse(JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')));
  if (!manifest.success) throw new Error(`${nameOf(folder)} names no license.`);
  return `License: ${manifest.data.license}\n`;
}

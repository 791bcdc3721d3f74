import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { bundle, type Bundle } from './bundle.ts';
import { buildExecutable } from './executable.ts';
import { UnpackedRuntimes } from './runtime-cache.ts';
import { type Platform, PLATFORMS, runtimeForBuilding } from './runtimes.ts';

export interface BuildRequest {
  platforms: readonly Platform[];
  /** The folder for the results. */
  out: string;
  /** In place of those in the source; for tests of upgrades. */
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
        // Of the same version; the packages for Windows hold no license.
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

/** This machine can start what was built for it, and nothing else. */
export function isOwnPlatform(platform: Platform): boolean {
  const { os, architecture } = PLATFORMS[platform];
  return OWN_NAMES[os] === process.platform && architecture === process.arch;
}

const OWN_NAMES = { linux: 'linux', windows: 'win32', macos: 'darwin' } as const;

const megabytes = (bytes: number) => (bytes / 1_000_000).toFixed(1);

/** In the format of `sha256sum`, of exactly these files. */
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

/** The licenses of all that is in the files, which have to be passed on with them. */
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

/** A few packages name their license and leave out its text. */
async function licenseOf(folder: string): Promise<string> {
  const file = (await readdir(folder)).find((entry) => /^(licen[sc]e|copying)/i.test(entry));
  if (file !== undefined) return readFile(path.join(folder, file), 'utf8');
  const manifest = Manifest.safeParse(JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')));
  if (!manifest.success) throw new Error(`${nameOf(folder)} names no license.`);
  return `License: ${manifest.data.license}\n`;
}

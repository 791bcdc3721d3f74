import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { clock } from '../clock.ts';
import {
  readPageFiles,
  type PageFiles,
  type Notice,
  type PageState,
  type SinglePage,
} from '../platform/http/single-page.ts';
import type { Logger } from '../platform/logger.ts';
import { PROJECT_ROOT } from '../platform/project-root.ts';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';

/**
 * Where builds of the dashboard are, and of which sources: each is a folder below `dist/dashboard` that has the hash of
 * its sources as its name. It appears there whole, by a rename, so that servers and builds that run at the same time
 * never see half of one.
 */

const BUILDS = path.join('dist', 'dashboard');
/** The sources of a build. The dashboard imports only types from the rest of the server. */
const SOURCES = [path.join('src', 'dashboard'), path.join('src', 'protocol'), 'package-lock.json'];

/** In a checkout where `npm ci` has installed the tools too. An image and `npm ci --omit=dev` have builds only. */
const canBuild = (root: string): boolean =>
  [...SOURCES, path.join('node_modules', 'vite')].every((needed) => existsSync(path.join(root, needed)));

/** The build of the sources as they are now. */
export async function currentBuild(root: string): Promise<string | undefined> {
  const folder = path.join(root, BUILDS, await hashOfSources(root));
  return existsSync(folder) ? folder : undefined;
}

/** Used when there are no sources to compare with. */
async function newestBuild(root: string): Promise<string | undefined> {
  const folders = (await namesIn(path.join(root, BUILDS)))
    .filter((name) => !name.startsWith('.'))
    .map((name) => path.join(root, BUILDS, name));
  const aged = await Promise.all(
    folders.map(async (folder) => ({ folder, at: (await stat(folder)).mtimeMs })),
  );
  return aged.sort((one, other) => other.at - one.at)[0]?.folder;
}

/** Sources that change while they are built give a build of neither state, which is thrown away. */
const TRIES = 3;

/**
 * Builds the dashboard unless the present sources are built already, and removes the builds of earlier sources.
 * @param build  writes the page into an empty folder
 */
export async function ensureBuild(root: string, build: (folder: string) => Promise<void>): Promise<string> {
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const present = await currentBuild(root);
    if (present !== undefined) return present;
    const hash = await hashOfSources(root);
    const folder = path.join(root, BUILDS, `.${randomUUID()}`);
    await mkdir(folder, { recursive: true });
    try {
      await build(folder);
      if ((await hashOfSources(root)) !== hash) continue;
      await renameUnlessThere(folder, path.join(root, BUILDS, hash));
      await removeOthers(root, hash);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const built = await currentBuild(root);
  if (built === undefined) {
    throw new Error('The sources of the dashboard kept changing while they were built.');
  }
  return built;
}

/** Another process may have built the same sources meanwhile. */
async function renameUnlessThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!existsSync(to)) throw error;
  }
}

/** So long a build that has not ended counts as one that another process is still making. */
const ABANDONED_MS = 3_600_000;

async function removeOthers(root: string, hash: string): Promise<void> {
  for (const name of await namesIn(path.join(root, BUILDS))) {
    if (name === hash) continue;
    const folder = path.join(root, BUILDS, name);
    const age = clock.now() - ((await stat(folder).catch(() => undefined))?.mtimeMs ?? 0);
    if (!name.startsWith('.') || age > ABANDONED_MS) await rm(folder, { recursive: true, force: true });
  }
}

async function hashOfSources(root: string): Promise<string> {
  const hash = createHash('sha256');
  for (const source of SOURCES) {
    for (const file of await filesOf(path.join(root, source))) {
      const content = await readFile(file);
      // With its length, so that no two states of the sources give the same text.
      hash
        .update(`${path.relative(root, file).split(path.sep).join('/')}\0${content.length}\0`)
        .update(content);
    }
  }
  return hash.digest('hex').slice(0, 32);
}

async function filesOf(place: string): Promise<string[]> {
  if (!(await stat(place)).isDirectory()) return [place];
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** The dashboard as a server has it, from the moment at which the server starts. */
export interface Dashboard extends SinglePage {
  /** Resolves once the page is there, or will not come; never rejects. */
  settled: Promise<void>;
  /** Ends a build that is under way. */
  stop(): Promise<void>;
}

export interface DashboardOptions {
  log: Logger;
  /** For tests: another project, and another command that builds it. */
  root?: string;
  command?: readonly string[];
}

const BUILDING: Notice = {
  title: 'The dashboard is being built',
  text: 'This takes a few seconds after an installation or an upgrade. The page opens by itself.',
  againAfter: 1,
};
const FAILED: Notice = {
  title: 'The dashboard could not be built',
  text: 'The log of the server says why, and so does this command on its machine. Start the server again afterwards. Everything else works meanwhile.',
  command: 'npm run build:dashboard',
  againAfter: 5,
};
const ABSENT: Notice = {
  title: 'The dashboard is not built',
  text: 'Run this in a checkout of Muster, and start the server again. Everything else works meanwhile.',
  command: 'npm ci && npm run build:dashboard',
  againAfter: 5,
};

/** Reads the built dashboard. If its sources are there and newer, they are built first, in a process of their own. */
export function openDashboard({
  log,
  root = PROJECT_ROOT,
  command = buildCommand(root),
}: DashboardOptions): Dashboard {
  let state: PageState = { notice: BUILDING };
  const stopping = new AbortController();

  async function open(): Promise<PageState> {
    if (!canBuild(root)) return pageIn(await newestBuild(root), ABSENT);
    const present = await filesIn(await currentBuild(root));
    if (present !== undefined) return { files: present };
    const startedAt = clock.monotonic();
    const failure = await runBuild(command, stopping.signal);
    if (stopping.signal.aborted) return { notice: ABSENT };
    if (failure !== undefined) {
      log.error({ output: failure }, 'dashboard.build_failed');
      return { notice: FAILED };
    }
    log.info({ ms: Math.round(clock.monotonic() - startedAt) }, 'dashboard.built');
    return pageIn(await currentBuild(root), FAILED);
  }

  const settled = open().then(
    (opened) => void (state = opened),
    (error: unknown) => {
      log.error({ err: error }, 'dashboard.build_failed');
      state = { notice: FAILED };
    },
  );
  return {
    current: () => state,
    settled,
    async stop() {
      stopping.abort();
      await settled;
    },
  };
}

const pageIn = async (folder: string | undefined, otherwise: Notice): Promise<PageState> => {
  const files = await filesIn(folder);
  return files === undefined ? { notice: otherwise } : { files };
};

const filesIn = async (folder: string | undefined): Promise<PageFiles | undefined> =>
  folder === undefined ? undefined : readPageFiles(folder);

const buildCommand = (root: string) => [
  path.join(root, 'src/run.mjs'),
  path.join(root, 'src/cli/build-dashboard.ts'),
];

/** The most output of a failed build that is kept. */
const OUTPUT_LINES = 20;
const OUTPUT_MAX = 20_000;

/** @returns the first lines that a failed build has written; `undefined` if it succeeded */
async function runBuild(command: readonly string[], signal: AbortSignal): Promise<string[] | undefined> {
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'ignore', 'pipe'], signal });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    output = (output + chunk).slice(0, OUTPUT_MAX);
  });
  const code = await endOf(child);
  if (code === 0) return undefined;
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  return lines.length > 0 ? lines.slice(0, OUTPUT_LINES) : [`The build ended with ${code}.`];
}

async function endOf(child: ChildProcess): Promise<string | number> {
  try {
    const [code, killedBy]: unknown[] = await once(child, 'close');
    return typeof code === 'number' ? code : String(killedBy);
  } catch (error) {
    return String(error);
  }
}

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { clock } from '../../clock.ts';
import { readPageFiles, type PageFiles } from '../../platform/http/single-page/page-files.ts';
import type { Notice, PageState, SinglePage } from '../../platform/http/single-page/single-page.ts';
import type { Logger } from '../../platform/logger.ts';
import { PROJECT_ROOT } from '../../platform/project-root.ts';
import { canBuild, currentBuild, newestBuild } from './dashboard-build.ts';

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

/** Reads the built dashboard. Where its sources are there and newer, they are built first, in a process of their own. */
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

/** What is kept of the output of a build that fails. */
const OUTPUT_LINES = 20;
const OUTPUT_MAX = 20_000;

/** @returns the first lines that a failed build has written; `undefined` where it succeeded */
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

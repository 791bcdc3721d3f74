import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import type { UnpackedRuntimes } from './runtime-cache.ts';
import { type Platform, PLATFORMS, runtimeForBuilding, runtimeOf } from './runtimes.ts';

/** Executables that hold the Node runtime, a main program and the script of the agent (Node's "single executables"). */

const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const RESOURCE = 'NODE_SEA_BLOB';
const MACOS_SEGMENT = 'NODE_SEA';
const STEP_MS = 120_000;

const execute = promisify(execFile);

export interface ExecutableParts {
  /** The program that starts with the executable. */
  main: Buffer;
  /** The asset `agent`, for machines where no other release of the script is installed. */
  agent: Buffer;
}

export interface BuildPlace {
  /** A folder for the files of this build, which the caller removes. */
  work: string;
  runtimes: UnpackedRuntimes;
}

/** @returns what the operator should know about the result */
export async function buildExecutable(
  platform: Platform,
  parts: ExecutableParts,
  file: string,
  { work, runtimes }: BuildPlace,
): Promise<string[]> {
  const notes: string[] = [];
  await copyFile(await runtimes.program(runtimeOf(platform)), file);
  await chmod(file, 0o755);
  // This comes first: an executable that is stripped after the injection does not start.
  if (!(await strip(platform, file))) notes.push('not stripped, because this machine has no strip for it');
  const maker = await runtimes.program(runtimeForBuilding(platform));
  await inject(file, await prepareBlob(maker, parts, path.join(work, platform)), PLATFORMS[platform].os);
  if (PLATFORMS[platform].os !== 'linux') notes.push('not signed; sign it before you publish it');
  return notes;
}

/** Without code cache and snapshot, which only work in the runtime that made them. */
async function prepareBlob(maker: string, { main, agent }: ExecutableParts, folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'main.cjs'), main);
  await writeFile(path.join(folder, 'agent.cjs'), agent);
  // The blob holds the path of the main program as it is written here, so that must not depend on the folder.
  const settings = {
    main: 'main.cjs',
    output: 'blob',
    disableExperimentalSEAWarning: true,
    useCodeCache: false,
    useSnapshot: false,
    // Neither the environment nor a signal may make the runtime load something else or open its inspector.
    execArgvExtension: 'none',
    execArgv: ['--disable-sigusr1'],
    assets: { agent: 'agent.cjs' },
  };
  await writeFile(path.join(folder, 'settings.json'), JSON.stringify(settings));
  const words = ['--experimental-sea-config', 'settings.json'];
  await execute(maker, words, { cwd: folder, timeout: STEP_MS, env: {} });
  return path.join(folder, 'blob');
}

/** By its command line, because the library prints warnings of its own that are of no use. */
async function inject(file: string, blob: string, os: string): Promise<void> {
  const postject = createRequire(import.meta.url).resolve('postject/dist/cli.js');
  const words = [postject, file, RESOURCE, blob, '--sentinel-fuse', FUSE];
  if (os === 'macos') words.push('--macho-segment-name', MACOS_SEGMENT);
  await execute(process.execPath, words, { timeout: STEP_MS, maxBuffer: 4_000_000 });
}

/** Removes the symbols of a Linux runtime, an eighth of it. False where that is not possible here. */
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

import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { getAsset, isSea } from 'node:sea';
import vm from 'node:vm';
import {
  currentRelease,
  ownPlatform,
  defaultDataDir,
  defaultProgramsDir,
} from '../agent/os/releases/layout.ts';
import { readScript, floorForStart, provenReleases } from '../agent/os/releases/installed-release.ts';
import { keysForStart } from '../agent/os/releases/release-check.ts';

export interface Place {
  programs: string;
  dataDir: string;
}

export interface AgentScript {
  /** The version of an installed release; `undefined` for the script embedded in this program. */
  version: string | undefined;
  text: string;
  file: string;
}

/** The name of the embedded script, in place of a version. */
export const EMBEDDED = 'embedded';

/** A verified release of the agent. Throws `ReleaseRefused`. */
export async function installedScript({ programs, dataDir }: Place, version: string): Promise<AgentScript> {
  const proven = await provenReleases(dataDir, 'agent');
  const { bytes, file } = await readScript(programs, version, {
    component: 'agent',
    platform: ownPlatform(),
    keys: await keysForStart(dataDir),
    floor: floorForStart(proven, version),
  });
  return { version, text: bytes.toString('utf8'), file };
}

/** The script for a command line: the chosen release, else the newest healthy one, else the embedded one. */
export async function bestScript(place: Place, warn: (message: string) => void): Promise<AgentScript> {
  const current = await currentRelease(place.programs, 'agent');
  const { healthy } = await provenReleases(place.dataDir, 'agent');
  for (const version of new Set(current === undefined ? [] : [current, ...healthy])) {
    try {
      return await installedScript(place, version);
    } catch (error) {
      warn(`The agent ${version} is not used: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return shippedScript();
}

export function shippedScript(): AgentScript {
  const embedded = embeddedScript();
  if (embedded === undefined) {
    throw new Error('No agent is installed, and none came with this program (muster-agent.cjs beside it).');
  }
  return { version: undefined, ...embedded };
}

/**
 * The agent scripts that this machine can start, in order of preference: the chosen release, earlier healthy ones, and
 * the embedded one. Releases that fail verification are left out.
 */
export async function startableScripts(place: Place, warn: (message: string) => void): Promise<string[]> {
  const current = await currentRelease(place.programs, 'agent');
  const { healthy } = await provenReleases(place.dataDir, 'agent');
  const found: string[] = [];
  // If no release was chosen, the embedded script comes first and no other is tried.
  for (const version of new Set(current === undefined ? [] : [current, ...healthy])) {
    try {
      await installedScript(place, version);
      found.push(version);
    } catch (error) {
      warn(`The agent ${version} is not used: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return [...found, EMBEDDED];
}

/** The exit code for a release that fails verification: the watchdog then chooses another one. */
const EXIT_REFUSED = 78;

const STACK_LINES = 12;
const STACK_LINE_MAX = 300;

/**
 * Runs a command line of the agent in this process. The launcher's own options come before it: `--release VERSION` (or
 * `embedded`) and `--programs DIR`.
 */
export async function runAgentCommand(words: readonly string[]): Promise<void> {
  const { release, programs, rest } = launcherOptions(words);
  const place = { programs: programs ?? defaultProgramsDir(), dataDir: dataDirIn(rest) ?? defaultDataDir() };
  if (release === undefined && asksForVersion(rest)) {
    const current = await currentRelease(place.programs, 'agent');
    if (current !== undefined) {
      process.stdout.write(`${current}\n`);
      return;
    }
  }
  let script: AgentScript;
  try {
    if (release === undefined) script = isOfRelease(rest) ? await bestScript(place, warn) : shippedScript();
    else if (release === EMBEDDED) script = shippedScript();
    else script = await installedScript(place, release);
  } catch (error) {
    warn(error instanceof Error ? error.message : String(error));
    process.exitCode = EXIT_REFUSED;
    return;
  }
  process.argv.splice(2, Infinity, ...rest);
  try {
    runScript(script.text, script.file);
  } catch (error) {
    // The watchdog reports the last lines of the output, so they must name the fault of the release.
    const what = `The agent ${script.version ?? 'that came with this program'} could not be started`;
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    // A stack quotes the line of the fault, and a bundle may be a single line.
    const lines = reason.split('\n').slice(0, STACK_LINES);
    warn(`${what}: ${lines.map((line) => line.slice(0, STACK_LINE_MAX)).join('\n')}`);
    process.exitCode = 1;
  }
}

/**
 * Commands that only a release runs. All others maintain this machine and must work while the release hangs or does
 * not start: they come from the embedded script, whatever release is chosen.
 */
const OF_RELEASE = ['run', 'eventlog', 'recover', 'simulate'];

/** Pure. */
export const isOfRelease = (words: readonly string[]): boolean => OF_RELEASE.includes(words[0] ?? '');

const asksForVersion = ([first]: readonly string[]) => first === 'version' || first === '--version';

/** Pure. */
export function launcherOptions(words: readonly string[]): {
  release?: string;
  programs?: string;
  rest: string[];
} {
  const found: { release?: string; programs?: string } = {};
  let at = 0;
  for (;;) {
    const [name, value] = [words[at], words[at + 1]];
    if (value === undefined) break;
    if (name === '--release') found.release = value;
    else if (name === '--programs') found.programs = value;
    else break;
    at += 2;
  }
  return { ...found, rest: words.slice(at) };
}

/** The data folder of the agent, from its own options: it contains the keys and the floor. Pure. */
export function dataDirIn(words: readonly string[]): string | undefined {
  const at = words.findIndex((word) => word === '--data-dir' || word.startsWith('--data-dir='));
  const word = words[at];
  if (word === undefined) return undefined;
  return word === '--data-dir' ? words[at + 1] : word.slice('--data-dir='.length);
}

function warn(message: string): void {
  process.stderr.write(`${message}\n`);
}

/**
 * Runs a CommonJS script in this process from its verified text: the file is not opened again. The script can
 * `require` only modules of Node, because everything else is bundled.
 */
function runScript(text: string, file: string): void {
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${text.replace(/^#!.*/, '')}\n})`;
  const script = new vm.Script(wrapped, {
    filename: file,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const module = { exports: {} };
  // The script evaluates to a function of unknown type: the one above.
  const run = script.runInThisContext() as (
    exports: object,
    require: (name: string) => unknown,
    module: object,
    file: string,
    folder: string,
  ) => void;
  run(module.exports, requireBuiltin, module, file, path.dirname(file));
}

function requireBuiltin(name: string): unknown {
  if (!isBuiltin(name)) throw new Error(`The agent has no module "${name}": it loads modules of Node only.`);
  return process.getBuiltinModule(name);
}

/** The asset in the executable; without an executable, the file beside the entry. */
const ASSET = 'agent';
const BESIDE = 'muster-agent.cjs';

/** The program and arguments that start this program again. Without an executable, Node needs its entry. */
export function selfCommand(): [string, ...string[]] {
  if (isSea()) return [process.execPath];
  const entry = path.resolve(process.argv[1] ?? '');
  // `src/run.mjs` starts TypeScript.
  const through = entry.endsWith('.ts') ? [path.join(path.dirname(entry), '../run.mjs')] : [];
  return [process.execPath, ...process.execArgv, ...through, entry];
}

/** The embedded script of the agent: the fallback, and the first agent of a machine. */
function embeddedScript(): { text: string; file: string } | undefined {
  if (isSea()) return { text: getAsset(ASSET, 'utf8'), file: path.join(process.execPath, BESIDE) };
  const file = path.join(path.dirname(path.resolve(process.argv[1] ?? '')), BESIDE);
  try {
    return { text: readFileSync(file, 'utf8'), file };
  } catch {
    return undefined;
  }
}

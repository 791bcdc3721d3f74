import { currentRelease } from '../../agent/os/installation/current-release.ts';
import { defaultDataDir } from '../../agent/os/installation/data-folder.ts';
import { defaultProgramsDir } from '../../agent/os/installation/layout.ts';
import { type AgentScript, bestScript, EMBEDDED, installedScript, shippedScript } from './agent-script.ts';
import { runScript } from './run-script.ts';

/** The exit code for a release that does not hold: the watchdog then chooses another one. */
export const EXIT_REFUSED = 78;

const STACK_LINES = 12;
const STACK_LINE_MAX = 300;

/**
 * Runs a command line of the agent in this process. Before the words for the agent, the launcher takes options of its
 * own: `--release VERSION` (or `embedded`) and `--programs DIR`.
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
    // The watchdog reports the last lines of this, so they must say what is wrong with the release.
    const what = `The agent ${script.version ?? 'that came with this program'} could not be started`;
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    // A stack quotes the line of the fault, and a bundle can be a single line.
    const lines = reason.split('\n').slice(0, STACK_LINES);
    warn(`${what}: ${lines.map((line) => line.slice(0, STACK_LINE_MAX)).join('\n')}`);
    process.exitCode = 1;
  }
}

/**
 * What only a release does. Every other command looks after this machine, and must work while the release hangs or does
 * not start: it comes from the script in this executable, whatever release is chosen.
 */
const OF_RELEASE = ['run', 'event-log', 'recover', 'simulate'];

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

/** The folder of the agent, which its own options name: the keys and the floor are there. Pure. */
export function dataDirIn(words: readonly string[]): string | undefined {
  const at = words.findIndex((word) => word === '--data-dir' || word.startsWith('--data-dir='));
  const word = words[at];
  if (word === undefined) return undefined;
  return word === '--data-dir' ? words[at + 1] : word.slice('--data-dir='.length);
}

function warn(message: string): void {
  process.stderr.write(`${message}\n`);
}

import { spawn, type ChildProcess } from 'node:child_process';
import { builtArguments } from './built-programs.ts';
import { programArguments } from './bundled-programs.ts';

/** One of our programs as a process of its own. */
export interface Program {
  child: ChildProcess;
  /** What it has written so far. */
  output(): string;
  /** The exit code. */
  ended: Promise<number | null>;
}

const running = new Set<ChildProcess>();
// Also where the tests are ended in the middle.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export interface ProgramOptions {
  env: NodeJS.ProcessEnv;
  /** A program that sets the stage and then becomes ours. */
  through?: string[];
  /** The Node that runs it. */
  node?: string;
  /** As `npm run build` makes it. */
  asBuilt?: boolean;
  /** From its sources, as npm starts it. By default it is bundled, which starts sooner and hides in which order a file runs. */
  fromSources?: boolean;
}

/** @param entry  below the root of the repository */
export function runProgram(
  entry: string,
  args: string[],
  { env, through = [], node = process.execPath, asBuilt = false, fromSources = false }: ProgramOptions,
): Program {
  const bundledOrBuilt = asBuilt ? builtArguments : programArguments;
  const program = fromSources ? ['src/run.mjs', entry] : bundledOrBuilt(entry);
  const [command = node, ...words] = [...through, node, ...program, ...args];
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], env });
  running.add(child);
  child.once('close', () => running.delete(child));
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  return { child, output: () => text, ended: new Promise((resolve) => child.once('close', resolve)) };
}

/** At once, as a crash would; resolves when it is gone. Also where it has ended already, or stands still. */
export async function killProgram({ child, ended }: Program): Promise<void> {
  child.kill('SIGKILL');
  await ended;
}

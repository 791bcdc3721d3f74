import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';
import { clock } from '../clock.ts';

/** Starts the agent as a separate process, as on a managed machine. */

const HERE = path.dirname(fileURLToPath(import.meta.url));
const RUN = path.join(HERE, '..', 'run.mjs');
const AGENT = path.join(HERE, '..', 'agent', 'main.ts');
const END_MS = 5000;

export interface ChildProgram {
  /** Resolves with the exit code when the process has ended. */
  ended: Promise<number>;
  /** Asks the process to end, and kills it after five seconds. */
  stop(): Promise<void>;
}

/** Starts the agent. Its output goes to `logFile`, and each line of its standard output to `onLine`. */
export function startAgentProgram(
  args: string[],
  options: { logFile: string; onLine?: (line: string) => void },
): ChildProgram {
  const child = spawn(process.execPath, [RUN, AGENT, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(options.logFile, { flags: 'a', mode: 0o600 });
  for (const stream of [child.stdout, child.stderr]) {
    readline.createInterface({ input: stream }).on('line', (line) => {
      log.write(`${line}\n`);
      if (stream === child.stdout) options.onLine?.(line);
    });
  }
  const ended = new Promise<number>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('exit', (code) => {
      log.end();
      resolve(code ?? 1);
    });
  });
  return { ended, stop: () => stop(child, ended) };
}

async function stop(child: ChildProcess, ended: Promise<number>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const force = clock.setTimeout(() => child.kill('SIGKILL'), END_MS);
  await ended;
  clock.clear(force);
}

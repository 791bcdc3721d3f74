import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';

/** The agent as it is started on a machine: a process of its own. */

const ROOT = path.join(import.meta.dirname, '../..');

export interface AgentProgram {
  child: ChildProcess;
  /** What it has written so far. */
  output(): string;
  /** The exit code. */
  ended: Promise<number | null>;
}

/** @param through  a program that sets the stage and then becomes the agent */
export function startAgent(
  args: string[],
  env: Record<string, string> = {},
  through: string[] = [],
): AgentProgram {
  const agent = [path.join(ROOT, 'src/run.mjs'), path.join(ROOT, 'src/agent/main.ts'), ...args];
  const [command = process.execPath, ...words] = [...through, process.execPath, ...agent];
  const child = spawn(command, words, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  return { child, output: () => text, ended: new Promise((resolve) => child.once('close', resolve)) };
}

/** Runs a command of the agent to its end. */
export async function agentCommand(
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; output: string }> {
  const program = startAgent(args, env);
  return { code: await program.ended, output: program.output() };
}

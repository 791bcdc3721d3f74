import { type Program, runProgram } from './program.ts';

/** The agent as it is started on a machine: a process of its own. */
export type AgentProgram = Program;

/** @param through  a program that sets the stage and then becomes the agent */
export const startAgent = (
  args: string[],
  env: Record<string, string> = {},
  through: string[] = [],
): AgentProgram => runProgram('src/agent/main.ts', args, { env: { ...process.env, ...env }, through });

/** Runs a command of the agent to its end. */
export async function agentCommand(
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; output: string }> {
  const program = startAgent(args, env);
  return { code: await program.ended, output: program.output() };
}

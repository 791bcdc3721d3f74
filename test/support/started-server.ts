import { eventually } from './eventually.ts';
import { killProgram, type Program, type ProgramOptions, runProgram } from './program.ts';

/** The server as a process of its own, once it listens. */
export interface StartedServer extends Program {
  url: string;
  /** Its log so far, line by line. */
  log(): Record<string, unknown>[];
}

const START_MS = 120_000;

export async function startServerProcess(
  env: Record<string, string>,
  options: Omit<ProgramOptions, 'env'> = {},
): Promise<StartedServer> {
  const { PATH = '', HOME = '' } = process.env;
  const program = runProgram('src/main.ts', [], { ...options, env: { PATH, HOME, PORT: '0', ...env } });
  const log = () => linesOf(program.output());
  try {
    const url = await eventually(
      () => {
        if (program.child.exitCode !== null) throw new Error(`The server ended: ${program.output()}`);
        return log().find(({ event }) => event === 'server.listening')?.['url'];
      },
      (found) => typeof found === 'string',
      START_MS,
    );
    return { ...program, url: String(url), log };
  } catch (error) {
    await killProgram(program);
    throw error;
  }
}

/** The whole lines of a log that may be in the middle of one. */
export function linesOf(text: string): Record<string, unknown>[] {
  const whole = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return whole
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

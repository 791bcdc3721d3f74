import { type ChildProcess, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { programArguments } from './bundled-programs.ts';
import type { MusterOptions, Ran } from './run-muster.ts';

export interface RunningProgram {
  child: ChildProcess;
  out(): string;
  err(): string;
  /** The exit code is -1 where a signal has ended the process. */
  ended: Promise<Ran>;
}

/**
 * Starts a program of the operator as a process of its own. Only for what `runMuster` cannot show: signals, pipes, a
 * process that is killed, and that the program starts at all.
 * @param entry  below the root of the repository
 */
export const startOperatorProgram = (
  entry: 'src/cli/muster.ts' | 'src/cli/rotate-secrets.ts',
  args: readonly string[],
  options: MusterOptions = {},
): RunningProgram => startProcess(process.execPath, [...programArguments(entry), ...args], options);

/** The same for any command, which has nothing of the test's environment but PATH and HOME. */
export function startProcess(
  command: string,
  args: readonly string[],
  { env = {}, stdin = '' }: MusterOptions = {},
): RunningProgram {
  const child = spawn(command, args, {
    cwd: tmpdir(),
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
  });
  const texts = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.err += text));
  child.stdin.on('error', () => undefined).end(stdin);
  return {
    child,
    out: () => texts.out,
    err: () => texts.err,
    ended: new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve({ code: code ?? -1, ...texts }));
    }),
  };
}

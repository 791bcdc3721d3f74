import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Command, CommanderError } from 'commander';
import { PROJECT_ROOT } from '../platform/project-root.ts';
import { addCommands } from './commands.ts';
import { type CommandIo, type CommandLine, type OutputStream, written } from './io.ts';
import { inFull } from './short-forms.ts';

/**
 * Runs `muster <arguments>`, the command line of the operator, on the server or remotely. Returns the exit code when
 * all output is written.
 */
export async function run(args: readonly string[], io: CommandIo): Promise<number> {
  let failure: NodeJS.ErrnoException | undefined;
  io.stdout.on('error', (error: NodeJS.ErrnoException) => (failure ??= error));
  // Nothing is left to say it on.
  io.stderr.on('error', () => {});
  const exitCode = await runCommand(args, io);
  // Remarks reach standard error after standard output.
  await written(io.stdout);
  // A reader that goes, as `head` does, has what it wanted. A full disk has not.
  const isIncomplete = failure !== undefined && failure.code !== 'EPIPE';
  if (isIncomplete) io.stderr.write(`The output cannot be written (${failure?.code ?? failure?.message}).\n`);
  await written(io.stderr);
  return isIncomplete ? 2 : exitCode;
}

async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  let exitCode = 0;
  const commandLine: CommandLine = {
    io,
    action:
      (work) =>
      async (...given) => {
        exitCode = (await work(...given)) ?? 0;
      },
  };
  try {
    const words = inFull(args);
    const program = await programOf(words, commandLine);
    await program.parseAsync(words, { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commands exit with 1 to report a finding, so failures and invalid calls exit with 2.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    io.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
}

async function versionOf(): Promise<string> {
  const text = await readFile(path.join(PROJECT_ROOT, 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

async function programOf(args: readonly string[], commandLine: CommandLine): Promise<Command> {
  const { stdout, stderr } = commandLine.io;
  const program = new Command('muster')
    .description('Operates a Muster server.')
    .version(await versionOf(), '-V, --version', 'print the version')
    // `releases add --version 1.4.0` has an option of that name itself.
    .enablePositionalOptions();
  // Set before the commands are added, which inherit it.
  program
    .exitOverride()
    .showHelpAfterError('(add --help for what there is)')
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      getOutHelpWidth: () => widthOf(stdout),
      getErrHelpWidth: () => widthOf(stderr),
      // Help has no colors; by default Commander would read the environment of the process for them.
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    });
  const [first = ''] = args;
  const wanted = first === 'help' ? args[1] : first;
  await addCommands(program, commandLine, (name) => first === 'completion' || name === wanted);
  // The arguments of the commands that are not loaded are not known.
  program.configureHelp({ subcommandTerm: (command) => command.name() });
  return program;
}

/** Commander's form if the output is not a terminal. */
const NO_TERMINAL_WIDTH = 80;
const widthOf = ({ isTTY, columns }: OutputStream): number =>
  isTTY === true ? (columns ?? NO_TERMINAL_WIDTH) : NO_TERMINAL_WIDTH;

import { Command, CommanderError } from 'commander';
import {
  addAdmin,
  addCompletion,
  addDoctor,
  addInit,
  addSso,
  addUpgrade,
  addApiKeys,
} from './operator-commands.ts';
import { addAudit } from './audit/audit-commands.ts';
import { addInstallationBackup } from './installation-backup/backup-commands.ts';
import { type CommandIo, type CommandLine, type OutputStream, written } from './io.ts';
import { addReleases } from './release-commands.ts';
import { addRemote } from './remote/remote-commands.ts';

/**
 * Runs `muster <arguments>`, the command line of the operator, on the server or remotely. Returns the exit code when
 * all output is written.
 */
export async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const exitCode = await runCommand(args, io);
  // Remarks reach standard error after standard output.
  await written(io.stdout);
  await written(io.stderr);
  return exitCode;
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
    await programOf(commandLine).parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commands exit with 1 to report a finding, so failures and invalid calls exit with 2.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    io.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
}

function programOf(commandLine: CommandLine): Command {
  const { stdout, stderr } = commandLine.io;
  const program = new Command('muster').description('Operates a Muster server.');
  // Set before the commands are added, which inherit it.
  program
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
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
  addInit(program, commandLine);
  addDoctor(program, commandLine);
  addUpgrade(program, commandLine);
  addAdmin(program, commandLine);
  addApiKeys(program, commandLine);
  addInstallationBackup(program, commandLine);
  addAudit(program, commandLine);
  addSso(program, commandLine);
  addReleases(program, commandLine);
  addRemote(program, commandLine);
  addCompletion(program, commandLine);
  return program;
}

/** Commander's form if the output is not a terminal. */
const NO_TERMINAL_WIDTH = 80;
const widthOf = ({ isTTY, columns }: OutputStream): number =>
  isTTY === true ? (columns ?? NO_TERMINAL_WIDTH) : NO_TERMINAL_WIDTH;

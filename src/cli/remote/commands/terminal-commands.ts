import type { Command } from 'commander';
import type { CommandLine } from '../../io.ts';
import type { TerminalOptions } from '../terminal/terminal.ts';
import { EXIT_CODES, parsed, ProfileName, remoteAction } from './remote-command.ts';

export function addTerminal(program: Command, commandLine: CommandLine): void {
  program
    .command('terminal')
    .argument('<device>', 'the device, by host name, display name or id')
    .option('--email <address>', 'the person to sign in as; by default the one whose API key is used')
    .option('--no-escapes', 'send all that is typed to the device, ~. as well')
    .option('--profile <name>', 'the server to use, if you are signed in to several', parsed(ProfileName))
    .addHelpText(
      'after',
      `
It asks for your password and a code of your authenticator app, because an API key cannot open terminals.
At the start of a line, ~. leaves and ends the terminal, ~~ sends one ~, and ~? shows these.
The exit code is that of the shell.
${EXIT_CODES}`,
    )
    .action(
      remoteAction(commandLine)(async (device: string, options: TerminalOptions) =>
        (await import('../terminal/terminal.ts')).openTerminal(commandLine.io, device, options),
      ),
    );
}

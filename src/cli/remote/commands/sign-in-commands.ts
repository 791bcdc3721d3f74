import type { Command } from 'commander';
import type { CommandLine } from '../../io.ts';
import type { LoginOptions } from '../login.ts';
import { EXIT_CODES, parsed, ProfileName, remoteAction } from './remote-command.ts';

export function addSignIn(program: Command, commandLine: CommandLine): void {
  const { io } = commandLine;
  const remote = remoteAction(commandLine);

  program
    .command('login')
    .requiredOption('--server <url>', 'the address of the server, such as https://rmm.example.com')
    .option('--profile <name>', 'the name under which it is stored', parsed(ProfileName), 'default')
    .option('--key-stdin', 'read the key from standard input instead of asking for it')
    .option('--plain-http', 'allow an address without TLS, over which the key can be read')
    .option('--json', 'print JSON')
    .addHelpText('after', EXIT_CODES)
    .action(remote(async (options: LoginOptions) => (await import('../login.ts')).login(io, options)));

  program
    .command('logout')
    .option('--profile <name>', 'another one than the current', parsed(ProfileName))
    .option('--json', 'print JSON')
    .action(
      remote(async (options: { profile?: string; json?: boolean }) =>
        (await import('../login.ts')).logout(io, options),
      ),
    );

  program
    .command('profiles')
    .option('--json', 'print JSON')
    .action(
      remote(async (options: { json?: boolean }) => (await import('../login.ts')).listProfiles(io, options)),
    );
}

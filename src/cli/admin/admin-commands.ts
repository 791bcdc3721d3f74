import type { Command } from 'commander';
import { parseEmail } from '../email-option.ts';
import type { CommandLine } from '../io.ts';
import type { AdminOptions, PasswordOptions } from './run-admin.ts';

/** Commands for the administrators of the installation, loaded on demand. */
export function addAdmin(program: Command, { io, action }: CommandLine): void {
  const admin = program
    .command('admin')
    .description('create and help administrators of this installation (audited, without signing in)')
    .exitOverride();

  admin
    .command('list')
    .description('list the system administrators')
    .option('--json', 'print them as JSON')
    .exitOverride()
    .action(
      action(async (options: { json?: true }) => {
        const { listAdmins } = await import('./run-admin.ts');
        await listAdmins(io, options);
      }),
    );

  withPassword(admin.command('create'))
    .description('create a system administrator, who may do everything in every tenant')
    .option('--name <name>', 'the name of the person', 'Administrator')
    .action(
      action(async (options: PasswordOptions & { name: string }) => {
        const { createAdmin } = await import('./run-admin.ts');
        await createAdmin(io, options);
      }),
    );

  withPassword(admin.command('reset-password'))
    .description('give a system administrator another password; sessions and API keys of the account end')
    .action(
      action(async (options: PasswordOptions) => {
        const { resetPassword } = await import('./run-admin.ts');
        await resetPassword(io, options);
      }),
    );

  withEmail(admin.command('disable-mfa'))
    .description(
      'remove the second factor of a system administrator; sessions and API keys of the account end',
    )
    .action(
      action(async (options: AdminOptions) => {
        const { disableMfa } = await import('./run-admin.ts');
        await disableMfa(io, options);
      }),
    );
}

const withEmail = (command: Command) =>
  command
    .requiredOption('--email <address>', 'the address of the administrator', parseEmail)
    .option('--json', 'print the result as JSON')
    .exitOverride();

const withPassword = (command: Command) =>
  withEmail(command).option(
    '--password-stdin',
    'read the password from the standard input, instead of asking for it on the terminal',
  );

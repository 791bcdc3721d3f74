import { type Command, InvalidArgumentError } from 'commander';
import { databaseUrlFault } from '../database-url.ts';
import { EmailAddress } from '../email-address.ts';
import { parseRedisUrl, RedisUrlError } from '../redis-url.ts';
import type { CommandLine } from './io.ts';
import type { AdminOptions, PasswordOptions } from './run-admin.ts';
import { z } from 'zod';
import type { InitOptions } from './run-init.ts';
import type { DoctorOptions } from './doctor/run-doctor.ts';
import type { NewKeyOptions } from './run-api-keys.ts';

/** Commands beside the server, for its operator. */
export function addOperatorCommands(program: Command, commandLine: CommandLine): void {
  addInit(program, commandLine);
  addDoctor(program, commandLine);
  addUpgrade(program, commandLine);
  addAdmin(program, commandLine);
  addApiKeys(program, commandLine);
  addSso(program, commandLine);
}

/** Parses an option whose value is an email address. */
function parseEmail(text: string): string {
  const parsed = EmailAddress.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError('Must be an e-mail address.');
  return parsed.data;
}

/** Commands for the administrators of the installation, loaded on demand. */
function addAdmin(program: Command, { io, action }: CommandLine): void {
  const admin = program.command('admin').exitOverride();

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
      'remove all second factors of a system administrator (authenticator app, recovery codes and passkeys); sessions and API keys of the account end',
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

/** `muster init`, loaded on demand. */
function addInit(program: Command, { io, action }: CommandLine): void {
  program
    .command('init')
    .argument('[file]', 'the file to write; .env if it is left out')
    .option(
      '--public-url <url>',
      'the address under which people reach the server',
      parsed(['http', 'https']),
    )
    .option(
      '--database-url <url>',
      'owner of an external database, without a password; with commas between several servers',
      parseDatabaseOption,
    )
    .option('--database-password-file <file>', 'file with the password of that owner')
    .option(
      '--redis-url <url>',
      'Redis for several servers, without a password: redis://, redis+sentinel:// or redis+cluster://',
      parseRedisOption,
    )
    .option('--redis-password-file <file>', 'file with the password of Redis')
    .option('--data-dir <folder>', 'the data folder')
    .option(
      '--admin-email <address>',
      'the first administrator; without --admin-password-*, a password is generated',
      parseEmail,
    )
    .option('--admin-password-stdin', 'read the password of that administrator from the standard input')
    .option('--admin-password-file <file>', 'file with the password of that administrator')
    .option('--provider <name>', 'create this provider in the database, or take the one of that name')
    .option('--organization <name>', 'create this organization of the provider, or take the one of that name')
    .option('--site <name>', 'create this site of the organization, or take the one of that name')
    .option('--key <name>', 'create an enrollment key under this name; it is shown once')
    .option('--force', 'replace the file, which may hold the only copy of your keys')
    .option('--json', 'print which variables were set, without their values')
    .exitOverride()
    .action(
      action(async (file: string | undefined, options: InitOptions) => {
        const { runInit } = await import('./run-init.ts');
        await runInit(io, file, options);
      }),
    );
}

const parsed =
  (protocols: readonly string[]) =>
  (text: string): string => {
    const url = z.url({ protocol: new RegExp(`^(${protocols.join('|')})$`) }).safeParse(text);
    if (!url.success) throw new InvalidArgumentError(`Must be a URL that begins with ${protocols[0]}://.`);
    return url.data;
  };

function parseDatabaseOption(text: string): string {
  const fault = databaseUrlFault(text);
  if (fault !== undefined) throw new InvalidArgumentError(`The URL ${fault}.`);
  return text;
}

function parseRedisOption(text: string): string {
  try {
    parseRedisUrl(text);
    return text;
  } catch (error) {
    if (!(error instanceof RedisUrlError)) throw error;
    throw new InvalidArgumentError(`It ${error.message}.`);
  }
}

/** `muster doctor`, loaded on demand. */
function addDoctor(program: Command, { io, action }: CommandLine): void {
  program
    .command('doctor')
    .option(
      '--public-url <url>',
      'the address under which people reach the server (default: PUBLIC_URL)',
      parseUrl,
    )
    .option(
      '--send-mail-to <address>',
      'send a test mail; without it the mail server is only greeted',
      parseEmail,
    )
    .option('--no-outside', 'leave out what is checked through the public address')
    .option('--json', 'print the results as JSON')
    .exitOverride()
    .action(
      action(async (options: DoctorOptions & { json?: true }) => {
        const { runDoctor } = await import('./doctor/run-doctor.ts');
        const { ok, results, text } = await runDoctor(io, options);
        io.stdout.write(options.json === true ? `${JSON.stringify({ ok, checks: results })}\n` : `${text}\n`);
        return ok ? 0 : 1;
      }),
    );
}

function parseUrl(text: string): string {
  const parsed = z.url({ protocol: /^https?$/ }).safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError('Must be a URL such as https://rmm.example.com.');
  return parsed.data.replace(/\/+$/, '');
}

/** Commands for single sign-on, loaded on demand. */
function addSso(program: Command, { io, action }: CommandLine): void {
  const sso = program.command('sso').exitOverride();

  sso
    .command('list')
    .description('list the identity providers that are enforced, and who can get in without them')
    .exitOverride()
    .action(
      action(async () => {
        const { printEnforced } = await import('./run-sso.ts');
        await printEnforced(io);
      }),
    );

  sso
    .command('unlock')
    .description(
      'stop enforcing an identity provider: its people may sign in with their passwords again (audited in its owner’s trail)',
    )
    .requiredOption('--provider <id>', 'the identity provider', parseId)
    .exitOverride()
    .action(
      action(async ({ provider }: { provider: string }) => {
        const { unlock } = await import('./run-sso.ts');
        await unlock(io, provider);
      }),
    );
}

function parseId(text: string): string {
  const parsed = z.uuid().safeParse(text.toLowerCase());
  if (!parsed.success) throw new InvalidArgumentError('Must be the id of an identity provider.');
  return parsed.data;
}

/** `muster upgrade check`, loaded on demand. */
function addUpgrade(program: Command, { io, action }: CommandLine): void {
  const upgrade = program.command('upgrade').exitOverride();

  upgrade
    .command('check')
    .description(
      'say what a start of this release would change, and if the release before it could still be started afterwards (exit 0: ready, 1: something must be done first)',
    )
    .option('--json', 'print the results as JSON')
    .exitOverride()
    .action(
      action(async (options: { json?: true }) => {
        const { runUpgradeCheck } = await import('./run-upgrade-check.ts');
        return runUpgradeCheck(io, options);
      }),
    );
}

/** Commands for keys of programs, loaded on demand. */
function addApiKeys(program: Command, { io, action }: CommandLine): void {
  const keys = program.command('api-keys').exitOverride();

  keys
    .command('create')
    .description('create a key that acts for a person; it is printed once')
    .requiredOption('--person <address>', 'whose rights it has, within its permissions', parseEmail)
    .requiredOption('--name <name>', 'what it is for')
    .requiredOption(
      '--permission <permission...>',
      'what it may do, such as devices:read; nothing that the person may not',
    )
    .option(
      '--organization <organization>',
      'the id or name of the only one that it is good for; without it, wherever the person may go',
    )
    .option('--expires-at <time>', 'until when it is good, such as 2027-01-31')
    .option('--rate-limit <requests>', 'how many requests an hour it may send (default: 1000)')
    .option('--json', 'print the result as JSON')
    .exitOverride()
    .action(
      action(async (options: NewKeyOptions) => {
        const { createKey } = await import('./run-api-keys.ts');
        await createKey(io, options);
      }),
    );

  keys
    .command('list')
    .description('list the keys of everyone, newest first')
    .option('--json', 'print them as JSON')
    .exitOverride()
    .action(
      action(async (options: { json?: true }) => {
        const { listKeys } = await import('./run-api-keys.ts');
        await listKeys(io, options);
      }),
    );

  keys
    .command('revoke')
    .description('make a key open nothing any more')
    .argument('<id>', 'the id of the key, as the list shows it')
    .option('--json', 'print the result as JSON')
    .exitOverride()
    .action(
      action(async (id: string, options: { json?: true }) => {
        const { revokeKey } = await import('./run-api-keys.ts');
        await revokeKey(io, id, options);
      }),
    );
}

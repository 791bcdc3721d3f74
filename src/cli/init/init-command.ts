import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { parseEmail } from '../email-option.ts';
import type { CommandLine } from '../io.ts';
import type { InitOptions } from './run-init.ts';

/** `muster init`, loaded on demand. */
export function addInit(program: Command, { io, action }: CommandLine): void {
  program
    .command('init')
    .description(
      'write an environment file with generated secrets; with names, also create the first administrator, provider, organization, site and enrollment key',
    )
    .argument('[file]', 'the file to write; .env where it is left out')
    .option(
      '--public-url <url>',
      'the address under which people reach the server',
      parsed(['http', 'https']),
    )
    .option(
      '--database-url <url>',
      'owner of an external database, without a password',
      parsed(['postgres', 'postgresql']),
    )
    .option('--database-password-file <file>', 'file with the password of that owner')
    .option('--redis-url <url>', 'Redis for several servers, without a password', parsed(['redis', 'rediss']))
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

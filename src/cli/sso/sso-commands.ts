import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import type { CommandLine } from '../io.ts';

/** Commands for single sign-on, loaded on demand. */
export function addSso(program: Command, { io, action }: CommandLine): void {
  const sso = program
    .command('sso')
    .description('show and switch off enforced single sign-on, when an identity provider locks people out')
    .exitOverride();

  sso
    .command('list')
    .description('list the identity providers that are enforced, and who can get in without them')
    .exitOverride()
    .action(
      action(async () => {
        const { printEnforced } = await import('./list.ts');
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
        const { unlock } = await import('./unlock.ts');
        await unlock(io, provider);
      }),
    );
}

function parseId(text: string): string {
  const parsed = z.uuid().safeParse(text.toLowerCase());
  if (!parsed.success) throw new InvalidArgumentError('Must be the id of an identity provider.');
  return parsed.data;
}

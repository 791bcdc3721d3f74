import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import type { VerifyOptions } from './verify-options.ts';

/** Each command is loaded when it is called, so that checking a file loads nothing that needs a database. */

export function addAudit(program: Command): void {
  const audit = program.command('audit').description('the audit trail and its proof').exitOverride();

  audit
    .command('verify')
    .description(
      'check that no audit entry was changed, removed, put in or moved (exit 0: all is well, 1: it is not, 2: could not be checked)',
    )
    .option('--bundle <file>', 'check an exported bundle, without a database')
    .option(
      '--database [url]',
      'check the database of this installation (the default), or the one at the URL',
    )
    .option('--org <id>', 'only the chain of this organization (or partner)', parseId)
    .option('--keys <file>', 'public keys to trust, as GET /api/v1/audit-keys answered them')
    .option('--known <file>', 'an earlier bundle: what it proves must still be there')
    .option('--json', 'the report as JSON')
    .exitOverride()
    .action(async (options: VerifyOptions) => {
      const { verifyBundle } = await import('./verify-bundle.ts');
      if (options.bundle !== undefined) {
        process.exitCode = await verifyBundle(options.bundle, options);
        return;
      }
      const { verifyDatabase } = await import('./verify-database.ts');
      process.exitCode = await verifyDatabase(options);
    });

  audit
    .command('export')
    .description('write a chain with its checkpoints and public keys to a file')
    .requiredOption('--org <id>', 'organization (or partner) whose chain it is', parseId)
    .requiredOption('--out <file>', 'where to')
    .exitOverride()
    .action(async ({ org, out }: { org: string; out: string }) => {
      const { exportToFile } = await import('./export-to-file.ts');
      await exportToFile(org, out);
    });

  audit
    .command('prune')
    .description('remove the entries whose time is over now, as the server does once a day')
    .exitOverride()
    .action(async () => {
      const { pruneNow } = await import('./prune-now.ts');
      process.exitCode = await pruneNow();
    });

  audit
    .command('rotate-key')
    .description('replace the key that signs the audit trail; the earlier one stays to check what it signed')
    .exitOverride()
    .action(async () => {
      const { rotateSigningKey } = await import('./rotate-signing-key.ts');
      await rotateSigningKey();
    });
}

function parseId(text: string): string {
  const parsed = z.uuid().safeParse(text.toLowerCase());
  if (!parsed.success) throw new InvalidArgumentError('Give the id of an organization.');
  return parsed.data;
}

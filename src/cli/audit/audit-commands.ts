import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import type { CommandLine } from '../io.ts';
import type { VerifyOptions } from './verify-bundle.ts';

/** Commands are loaded on demand, so that verifying a file loads no database code. */

export function addAudit(program: Command, { io, action }: CommandLine): void {
  const audit = program.command('audit').exitOverride();

  audit
    .command('verify')
    .description(
      'verify that no audit entry was changed, removed, inserted or moved (exit 0: intact, 1: not intact, 2: could not be verified)',
    )
    .option('--bundle <file>', 'verify an exported bundle, without a database')
    .option(
      '--database [url]',
      'verify the database of this installation (the default), or the one at the URL',
    )
    .option('--org <id>', 'verify only the chain of this organization or partner', parseId)
    .option('--keys <file>', 'public keys to trust: a saved response of GET /api/v1/audit-keys')
    .option('--known <file>', 'an earlier bundle, whose entries must still be present')
    .option('--json', 'print the report as JSON')
    .exitOverride()
    .action(
      action(async (options: VerifyOptions) => {
        const { verifyBundle } = await import('./verify-bundle.ts');
        if (options.bundle !== undefined) return verifyBundle(io, options.bundle, options);
        const { verifyDatabase } = await import('./installation-audit.ts');
        return verifyDatabase(io, options);
      }),
    );

  audit
    .command('export')
    .description('export a chain with its checkpoints and public keys to a file')
    .requiredOption('--org <id>', 'the organization or partner whose chain to export', parseId)
    .requiredOption('--out <file>', 'the file to write')
    .exitOverride()
    .action(
      action(async ({ org, out }: { org: string; out: string }) => {
        const { exportToFile } = await import('./installation-audit.ts');
        await exportToFile(io, org, out);
      }),
    );

  audit
    .command('prune')
    .description('remove expired entries now, as the server does once a day')
    .exitOverride()
    .action(
      action(async () => {
        const { pruneNow } = await import('./installation-audit.ts');
        return pruneNow(io);
      }),
    );

  audit
    .command('rotate-key')
    .description('replace the key that signs the audit trail; the old key stays for verification')
    .exitOverride()
    .action(
      action(async () => {
        const { rotateSigningKey } = await import('./installation-audit.ts');
        await rotateSigningKey(io);
      }),
    );
}

function parseId(text: string): string {
  const parsed = z.uuid().safeParse(text.toLowerCase());
  if (!parsed.success) throw new InvalidArgumentError('Must be the id of an organization or partner.');
  return parsed.data;
}

import type { Command } from 'commander';
import type { CommandLine } from '../io.ts';
import type { BackupOptions } from './run-backup.ts';
import type { RestoreOptions } from './run-restore.ts';

const PASSPHRASE_FILE = 'file with the passphrase of the keys in its first line';
const PASSPHRASE_STDIN = 'read the passphrase from the standard input';

/** Backup and restore of Muster itself, loaded on demand. */
export function addInstallationBackup(program: Command, { io, action }: CommandLine): void {
  program
    .command('backup')
    .argument('[file]', 'the file to write, which must not exist yet')
    .option('--passphrase-file <file>', PASSPHRASE_FILE)
    .option('--passphrase-stdin', PASSPHRASE_STDIN)
    .option(
      '--without-keys',
      'leave the keys out: without the SECRET_ENCRYPTION_KEY, which you then keep elsewhere, the secrets in the backup are lost',
    )
    .option('--with-store', 'include what the backup store holds in the data folder, which can be large')
    .option('--verify <file>', 'verify a backup instead; with the passphrase also against deliberate changes')
    .option('--json', 'print the result as JSON')
    .exitOverride()
    .action(
      action(async (file: string | undefined, options: BackupOptions) => {
        const { runBackup } = await import('./run-backup.ts');
        return runBackup(io, file, options);
      }),
    );

  program
    .command('restore')
    .argument('<file>', 'a file that `muster backup` has written')
    .option('--passphrase-file <file>', PASSPHRASE_FILE)
    .option('--passphrase-stdin', PASSPHRASE_STDIN)
    .option('--replace', 'remove everything that the database holds now')
    .option(
      '--environment-to <file>',
      'only write the keys and settings of the installation to an environment file, and restore nothing',
    )
    .option('--json', 'print the result as JSON')
    .exitOverride()
    .action(
      action(async (file: string, options: RestoreOptions) => {
        const { runRestore } = await import('./run-restore.ts');
        return runRestore(io, file, options);
      }),
    );
}

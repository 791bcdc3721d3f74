import type { Command } from 'commander';
import { defaultDataDir } from '../core/enrollment/credentials.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { rotateToken } from '../core/enrollment/rotate-token.ts';

export function addRotateToken(program: Command): void {
  program
    .command('rotate-token')
    .description(
      'ask the server for a new token, used from the next connection on (exit 2: not enrolled, 3: not reached, 4: refused)',
    )
    .option('--data-dir <folder>', 'where the credentials are kept', defaultDataDir())
    .action(async ({ dataDir }: { dataDir: string }) => {
      await rotateToken(await openPrivateFolder(dataDir));
      console.log('A new token is kept. The next connection uses it, and that ends the old one.');
    });
}

import type { Command } from 'commander';
import { defaultDataDir } from '../os/installation/data-folder.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { rotateToken } from '../core/enrollment/rotate-token.ts';

export function addRotateToken(program: Command): void {
  program
    .command('rotate-token')
    .description(
      'request a new token, which the next connection uses (exit 2: not enrolled, 3: server not reached, 4: refused)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .action(async ({ dataDir }: { dataDir: string }) => {
      await rotateToken(await openPrivateFolder(dataDir));
      console.log('The new token is stored. The next connection uses it and revokes the old one.');
    });
}

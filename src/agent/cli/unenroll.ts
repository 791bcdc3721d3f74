import type { Command } from 'commander';
import { removeCredentials } from '../core/enrollment/credentials.ts';
import { leaveServer } from '../core/enrollment/unenroll.ts';
import { printable } from '../core/plain-text.ts';
import { PROGRAM } from '../core/program-name.ts';
import { removeData } from '../core/state/remove-data.ts';
import { runningAgent } from '../core/state/status-file.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { defaultDataDir } from '../os/installation/data-folder.ts';

export function addUnenroll(program: Command): void {
  program
    .command('unenroll')
    .description(
      'take this machine out of service at its server, and remove the agent’s files (exit 3: server not reached, 4: refused)',
    )
    .option('--data-dir <folder>', 'folder of the agent', defaultDataDir())
    .option('--keep-data', 'remove the credentials only', false)
    .option('--force', 'remove the files although the server is not reached', false)
    .action(async (options: { dataDir: string; keepData: boolean; force: boolean }) => {
      const dataDir = await openPrivateFolder(options.dataDir);
      const running = await runningAgent(dataDir);
      if (running !== undefined) {
        throw new Error(
          `The agent is running (process ${running.pid}). Stop it first: ${PROGRAM} service stop`,
        );
      }
      try {
        console.log(await leaveServer(dataDir));
      } catch (error) {
        if (!options.force) throw error;
        console.error(`${String(error)} The server still lists this device until you decommission it there.`);
      }
      await removeCredentials(dataDir);
      if (options.keepData) return console.log('The credentials are removed.');
      const kept = await removeData(dataDir);
      console.log('The files of the agent are removed.');
      if (kept.length > 0) console.log(`These are not the agent’s, and stay:\n${listed(kept)}`);
    });
}

const LISTED = 10;

function listed(paths: readonly string[]): string {
  const shown = paths.slice(0, LISTED).map((each) => `  ${printable(each, 1000)}`);
  const more = paths.length - shown.length;
  return [...shown, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n');
}

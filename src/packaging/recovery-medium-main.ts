import path from 'node:path';
import { Command } from 'commander';
import { buildRecovery } from './build-recovery-medium.ts';

/** `npm run build:recovery`: a medium that boots a machine without an operating system. */
const program = new Command('build:recovery')
  .description('Builds a bootable image with the agent, for bare-metal recovery.')
  .option(
    '--agent <file>',
    'the executable of the agent',
    path.join('dist', 'agent', 'muster-watchdog-linux-x64'),
  )
  .option('--out <folder>', 'folder for the image', path.join('dist', 'recovery'))
  .option('--root <folder>', 'a root that debootstrap has made before')
  .action(async (given: { agent: string; out: string; root?: string }) => {
    await buildRecovery({ ...given, report: (line) => console.log(line) });
  });

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

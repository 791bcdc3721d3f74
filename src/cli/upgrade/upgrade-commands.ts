import type { Command } from 'commander';
import type { CommandLine } from '../io.ts';

/** `muster upgrade check`, loaded on demand. */
export function addUpgrade(program: Command, { io, action }: CommandLine): void {
  const upgrade = program.command('upgrade').description('prepare an upgrade of this server').exitOverride();

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

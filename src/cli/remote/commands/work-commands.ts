import type { Command } from 'commander';
import { z } from 'zod';
import type { CommandLine } from '../../io.ts';
import type { WatchOptions } from '../jobs-watch.ts';
import { forConnection, Id, parsed, remoteAction } from './remote-command.ts';

/** Work that goes on while nobody looks. */
export function addWork(program: Command, commandLine: CommandLine): void {
  const { io } = commandLine;
  const remote = remoteAction(commandLine);

  const jobs = program.command('jobs');
  forConnection(jobs.command('watch'))
    .description('show commands, backups and other long work as they go on')
    .option('--org <id>', 'only of this organization', parsed(Id))
    .option('--device <id>', 'only of this device', parsed(Id))
    .option('--job <id>', 'one job with its output, until it ends', parsed(Id))
    .option('--once', 'show what goes on now, and end')
    .option(
      '--reconnect <seconds>',
      'for how long to try again after a lost connection',
      parsed(Seconds),
      120,
    )
    .action(
      remote(async (options: WatchOptions) => (await import('../jobs-watch.ts')).watchJobs(io, options)),
    );
}

const Seconds = z.coerce.number('must be a number').int().min(0).max(86_400);

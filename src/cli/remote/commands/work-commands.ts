import type { Command } from 'commander';
import { z } from 'zod';
import type { CommandLine } from '../../io.ts';
import type { WatchOptions } from '../jobs-watch.ts';
import type { RepeatOptions } from '../script-runs.ts';
import type { RunOptions } from '../scripts.ts';
import { forConnection, Id, list, parsed, remoteAction, withConditions } from './remote-command.ts';

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
  forConnection(jobs.command('cancel'))
    .description('cancel commands; a device that has begun is asked to stop')
    .argument('<ids...>', 'the ids of the commands', ids)
    .action(
      remote(async (given: string[], options: Connection) =>
        (await import('../cancel.ts')).cancelJobs(io, given, options),
      ),
    );

  const scripts = program.command('scripts');
  forConnection(scripts.command('list'))
    .description('list the saved scripts')
    .option('--search <text>', 'a part of the name, in any case')
    .action(
      remote(async (options: Connection & { search?: string }) =>
        (await import('../scripts.ts')).listScripts(io, options),
      ),
    );
  withConditions(forConnection(scripts.command('run')))
    .description(
      'run a script on devices and follow it to the end (exit 0: it has succeeded on all); Ctrl+C leaves it alone',
    )
    .argument('<script>', 'the script, by name or id')
    .option(
      '--on <devices>',
      'a device by host name, display name or id, group:<name> or filter:<name>; may be repeated',
      list,
    )
    .option('--parameter <name=value>', 'the variable PARAM_<name> of the script; may be repeated', list)
    .option(
      '--secret <name[=file]>',
      'the variable SECRET_<name> of the script, asked for or read from a file; may be repeated',
      list,
    )
    .option('--detach', 'start it, and do not follow it')
    .option('--yes', 'do not ask before it is run on several devices')
    .option('--dry-run', 'show on which devices it would be run, and run nothing')
    .action(
      remote(async (script: string, options: RunOptions) =>
        (await import('../scripts.ts')).runScript(io, script, options),
      ),
    );
  forConnection(scripts.command('runs'))
    .description('list the runs of scripts, newest first')
    .option('--script <script>', 'only of this script, by name or id')
    .option('--limit <count>', 'how many to list', parsed(Count), 20)
    .action(
      remote(async (options: Connection & { script?: string; limit: number }) =>
        (await import('../script-runs.ts')).listRuns(io, options),
      ),
    );
  forConnection(scripts.command('follow'))
    .description('follow runs that were left, to the end')
    .argument('<runs...>', 'the ids of the runs', ids)
    .action(
      remote(async (given: string[], options: Connection) =>
        (await import('../script-runs.ts')).followRuns(io, given, options),
      ),
    );
  forConnection(scripts.command('cancel'))
    .description('cancel runs; devices that have begun are asked to stop')
    .argument('<runs...>', 'the ids of the runs', ids)
    .action(
      remote(async (given: string[], options: Connection) =>
        (await import('../cancel.ts')).cancelRuns(io, given, options),
      ),
    );
  forConnection(scripts.command('again'))
    .description('run the same version with the same parameters again, and follow it to the end')
    .argument('<run>', 'the id of the run', parsed(Id))
    .option('--failed', 'only on devices on which it has failed, timed out or expired')
    .option('--secret <name[=file]>', 'a secret of the run, read from a file; the others are asked for', list)
    .option('--detach', 'start it, and do not follow it')
    .option('--yes', 'do not ask before it is run on several devices')
    .action(
      remote(async (run: string, options: RepeatOptions) =>
        (await import('../script-runs.ts')).repeatRun(io, run, options),
      ),
    );
}

interface Connection {
  profile?: string;
  json?: boolean;
}

const ids = (text: string, before: string[] = []): string[] => [...before, parsed(Id)(text)];

const Count = z.coerce.number('must be a number').int().min(1).max(100);
const Seconds = z.coerce.number('must be a number').int().min(0).max(86_400);

import { type Command, Option } from 'commander';
import { z } from 'zod';
import {
  Instant,
  LOG_PAGE_MAX,
  LogLevel,
  Pid,
  ServiceAction,
  ServiceState,
} from '../../../protocol/index.ts';
import type { CommandLine } from '../../io.ts';
import type { QueryOptions } from '../query.ts';
import type { ToolOptions } from '../system-tools.ts';
import {
  forConnection,
  Id,
  Limit,
  list,
  moment,
  parsed,
  remoteAction,
  withConditions,
} from './remote-command.ts';

/** What is asked of devices while the command waits. */
export function addLive(program: Command, commandLine: CommandLine): void {
  const { io } = commandLine;
  const remote = remoteAction(commandLine);

  withConditions(forConnection(program.command('query')))
    .option('--device <device>', 'a device by host name or id; may be repeated', list)
    .option('--filter <filter>', 'the devices that match this saved filter, by name or id')
    .option('--org <id>', 'with a filter or conditions: only devices of this organization', parsed(Id))
    .requiredOption('--log <name>', 'the log, such as System')
    .option('--level <levels>', `separated by commas: ${LogLevel.options.join(', ')}`, parsed(Levels))
    .option('--source <source>', 'the whole source, in any case')
    .option('--event-id <number>', 'the id of the event', parsed(z.coerce.number().int().nonnegative()))
    .option('--text <text>', 'a part of the message, in any case')
    .option('--since <time>', 'only entries since then: a time, or an age such as 30m, 2h, 7d', moment)
    .option('--until <time>', 'only entries until then', moment)
    .option(
      '--limit <number>',
      `the newest entries of each device, ${LOG_PAGE_MAX} at most`,
      parsed(Limit.max(LOG_PAGE_MAX)),
      50,
    )
    .option('--follow', 'go on with new entries of one device as they come, for an hour at most')
    .action(remote(async (options: QueryOptions) => (await import('../query.ts')).query(io, options)));

  addSystemTools(program, commandLine, remote);
}

type Remote = ReturnType<typeof remoteAction>;

const Levels = z
  .string()
  .transform((text) => text.split(',').map((level) => level.trim()))
  .pipe(z.array(LogLevel));

/** Processes and services of one device, live. */
function addSystemTools(program: Command, { io }: CommandLine, remote: Remote): void {
  const forDevice = (command: Command) =>
    forConnection(command).requiredOption('--device <device>', 'the device, by host name or id');
  const tools = () => import('../system-tools.ts');

  const processes = program.command('processes');
  forDevice(processes.command('list'))
    .description('list the running processes, those that use the most first')
    .option('--search <text>', 'a part of the name, the command line or the user, in any case')
    .option('--limit <number>', 'the most processes', parsed(Limit))
    .action(
      remote(async (options: ToolOptions & { search?: string; limit?: number }) =>
        (await tools()).listProcesses(io, options),
      ),
    );
  forDevice(processes.command('end'))
    .description('end a process: it is asked to end, and ended by force after some seconds')
    .requiredOption('--pid <number>', 'its number', parsed(z.coerce.number().pipe(Pid)))
    .option(
      '--started-at <time>',
      'its start as --json has it; a later process with the same number is not ended',
      parsed(Instant),
    )
    .action(
      remote(async (options: ToolOptions & { pid: number; startedAt?: string }) =>
        (await tools()).endProcess(io, options),
      ),
    );

  const services = program.command('services');
  forDevice(services.command('list'))
    .description('list the services')
    .option('--search <text>', 'a part of either name, in any case')
    .addOption(new Option('--state <state>', 'only services in this state').choices(ServiceState.options))
    .action(
      remote(async (options: ToolOptions & { search?: string; state?: string }) =>
        (await tools()).listServices(io, options),
      ),
    );
  for (const action of ServiceAction.options) {
    forDevice(services.command(action))
      .description(`${action} a service`)
      .requiredOption('--name <name>', 'its name, as the list has it')
      .action(
        remote(async (options: ToolOptions & { name: string }) =>
          (await tools()).controlService(io, options, action),
        ),
      );
  }
}

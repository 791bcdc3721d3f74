import { type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  DeviceStatus,
  Instant,
  LOG_PAGE_MAX,
  LogLevel,
  OsType,
  Pid,
  ServiceAction,
  ServiceState,
} from '../../protocol/index.ts';
import type { CommandIo, CommandLine } from '../io.ts';
import { COLUMNS, type ColumnName, visible } from './output.ts';
import type { DevicesOptions } from './devices.ts';
import { EXIT, RemoteFailure } from './profiles.ts';
import type { WatchOptions } from './jobs-watch.ts';
import type { LoginOptions } from './login.ts';
import type { QueryOptions } from './query.ts';
import type { ToolOptions } from './system-tools.ts';

const EXIT_CODES = `
Exit codes: 0 done, 1 a device did not answer or the job failed, 2 invalid call or another failure, 3 not signed in,
4 a right is missing, 5 the server cannot be reached, 130 interrupted.
In JSON output, each line is one object.`;

/**
 * Commands for a remote server, over its public REST API and the socket of dashboards, with an API key. They need
 * neither a database nor any setting of the server.
 */
export function addRemote(program: Command, { io, action }: CommandLine): void {
  const remote = <Options>(work: (options: Options) => Promise<number>) =>
    action((options: Options) => exitCodeOf(io, () => work(options)));

  program
    .command('login')
    .description('sign in to a server with an API key, which is stored for you only')
    .requiredOption('--server <url>', 'the address of the server, such as https://rmm.example.com')
    .option('--profile <name>', 'the name under which it is stored', parsed(ProfileName), 'default')
    .option('--key-stdin', 'read the key from standard input instead of asking for it')
    .option('--plain-http', 'allow an address without TLS, over which the key can be read')
    .option('--json', 'print JSON')
    .addHelpText('after', EXIT_CODES)
    .action(remote(async (options: LoginOptions) => (await import('./login.ts')).login(io, options)));

  program
    .command('logout')
    .description('delete a stored API key')
    .option('--profile <name>', 'another one than the current', parsed(ProfileName))
    .option('--json', 'print JSON')
    .action(
      remote(async (options: { profile?: string; json?: boolean }) =>
        (await import('./login.ts')).logout(io, options),
      ),
    );

  program
    .command('profiles')
    .description('list the servers that you are signed in to')
    .option('--json', 'print JSON')
    .action(
      remote(async (options: { json?: boolean }) => (await import('./login.ts')).listProfiles(io, options)),
    );

  forConnection(program.command('devices'))
    .description('list devices')
    .option('--filter <filter>', 'only devices that match this saved filter, by name or id')
    .option(
      '--where <condition>',
      'only devices that match, such as "osType equals windows"; may be repeated',
      list,
    )
    .option('--conditions <json>', 'the same as JSON, in the form that filters have; @file reads a file')
    .option('--org <id>', 'only devices of this organization', parsed(Id))
    .option('--site <id>', 'only devices of this site', parsed(Id))
    .option('--group <id>', 'only devices of this group', parsed(Id))
    .addOption(new Option('--status <status>', 'only devices with this status').choices(DeviceStatus.options))
    .addOption(new Option('--os <system>', 'only devices with this system').choices(OsType.options))
    .option('--search <text>', 'a part of the host name or display name')
    .option('--tags <tags>', 'only devices with all of these tags, separated by commas')
    .option('--sort <field>', 'such as lastSeenAt; hostname if it is left out')
    .addOption(new Option('--order <order>', 'of the sort').choices(['asc', 'desc']))
    .option('--limit <number>', 'the most devices', parsed(Limit))
    .option(
      '--columns <names>',
      `separated by commas: ${Object.keys(COLUMNS).join(', ')}`,
      columns,
      DEFAULT_COLUMNS,
    )
    .action(
      remote(async (options: DevicesOptions) => (await import('./devices.ts')).listDevices(io, options)),
    );

  forConnection(program.command('query'))
    .description('read the event logs of devices live; Ctrl+C ends it on the devices')
    .option('--device <device>', 'a device by host name or id; may be repeated', list)
    .option('--filter <filter>', 'the devices that match this saved filter, by name or id')
    .option(
      '--where <condition>',
      'the devices that match, such as "osType equals windows"; may be repeated',
      list,
    )
    .option('--conditions <json>', 'the same as JSON, in the form that filters have; @file reads a file')
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
    .action(remote(async (options: QueryOptions) => (await import('./query.ts')).query(io, options)));

  addSystemTools(program, remote, io);

  const jobs = program.command('jobs').description('follow long work');
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
      remote(async (options: WatchOptions) => (await import('./jobs-watch.ts')).watchJobs(io, options)),
    );
}

type Remote = <Options>(work: (options: Options) => Promise<number>) => (options: Options) => Promise<void>;

/** Processes and services of one device, live. */
function addSystemTools(program: Command, remote: Remote, io: CommandIo): void {
  const forDevice = (command: Command) =>
    forConnection(command).requiredOption('--device <device>', 'the device, by host name or id');
  const tools = () => import('./system-tools.ts');

  const processes = program.command('processes').description('read and end processes of a device, live');
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
      'its start as the list says; a later process with the same number is not ended',
      parsed(Instant),
    )
    .action(
      remote(async (options: ToolOptions & { pid: number; startedAt?: string }) =>
        (await tools()).endProcess(io, options),
      ),
    );

  const services = program.command('services').description('read and control services of a device, live');
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

function forConnection(command: Command): Command {
  return command
    .option('--profile <name>', 'the server to use, if you are signed in to several', parsed(ProfileName))
    .option('--json', 'print JSON')
    .addHelpText('after', EXIT_CODES);
}

/** Failures end with a message and the exit code of their kind. */
async function exitCodeOf({ stderr }: CommandIo, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    // The message may come from the server, or name a device.
    stderr.write(`${visible(error instanceof Error ? error.message : String(error))}\n`);
    return error instanceof RemoteFailure ? error.exit : EXIT.failed;
  }
}

const Id = z.uuid('must be an id').toLowerCase();
const ProfileName = z
  .string()
  .regex(/^[\w.-]{1,64}$/, 'must have 1 to 64 letters, digits, dots, dashes or underscores');
const Limit = z.coerce.number('must be a number').int().min(1);
const Seconds = z.coerce.number('must be a number').int().min(0).max(86_400);
const Levels = z
  .string()
  .transform((text) => text.split(',').map((level) => level.trim()))
  .pipe(z.array(LogLevel));
const DEFAULT_COLUMNS: ColumnName[] = ['hostname', 'status', 'os', 'agent', 'lastSeen', 'id'];

function parsed<T>(schema: z.ZodType<T>): (text: string) => T {
  return (text) => {
    const result = schema.safeParse(text);
    if (result.success) return result.data;
    throw new InvalidArgumentError(`${result.error.issues[0]?.message ?? 'It is not valid'}.`);
  };
}

const list = (text: string, before: string[] = []): string[] => [...before, text];

function columns(text: string): ColumnName[] {
  return text.split(',').map((name) => {
    const column = name.trim();
    if (isColumn(column)) return column;
    throw new InvalidArgumentError(`There is no column ${column}.`);
  });
}
const isColumn = (text: string): text is ColumnName => Object.hasOwn(COLUMNS, text);

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time with its offset, or an age. */
function moment(text: string): string {
  const { count, unit = '' } = /^(?<count>\d{1,6})(?<unit>[smhd])$/.exec(text)?.groups ?? {};
  if (count !== undefined) return new Date(clock.now() - Number(count) * (UNITS_MS[unit] ?? 0)).toISOString();
  const time = Instant.safeParse(text);
  if (time.success) return text;
  throw new InvalidArgumentError('It must be a time such as 2026-01-31T08:00:00Z, or an age such as 30m.');
}

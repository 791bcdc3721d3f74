import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { DeviceStatus, OsType } from '../../../protocol/index.ts';
import type { CommandLine } from '../../io.ts';
import type { ActOptions } from '../act.ts';
import type { DevicesOptions } from '../devices.ts';
import { COLUMNS, type ColumnName } from '../output.ts';
import type { SearchOptions } from '../search.ts';
import {
  forActing,
  forConnection,
  Id,
  later,
  Limit,
  parsed,
  remoteAction,
  withConditions,
  words,
} from './remote-command.ts';

export function addDevices(program: Command, commandLine: CommandLine): void {
  const { io } = commandLine;
  const remote = remoteAction(commandLine);

  const devices = program.command('devices');
  withConditions(forConnection(devices.command('list')))
    .description('list devices')
    .option('--filter <filter>', 'only devices that match this saved filter, by name or id')
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
      remote(async (options: DevicesOptions) => (await import('../devices.ts')).listDevices(io, options)),
    );

  addActs(devices, commandLine);

  forConnection(program.command('search'))
    .argument('<text>', 'a part of a name, an address, a serial number, a tag and more')
    .option('--limit <number>', 'the most results', parsed(Limit.max(SEARCH_MAX)), 20)
    .action(
      remote(async (text: string, options: SearchOptions) =>
        (await import('../search.ts')).search(io, text, options),
      ),
    );
}

/** Commands that change devices. */
function addActs(devices: Command, commandLine: CommandLine): void {
  const { io } = commandLine;
  const remote = remoteAction(commandLine);
  const acts = () => import('../device-acts.ts');

  forActing(devices.command('restart'))
    .description('restart the machines; those that are offline restart when they are back, within a day')
    .option('--delay <seconds>', 'how long the machines wait before they restart', parsed(Delay))
    .action(
      remote(async (names: string[], options: ActOptions & { delay?: number }) =>
        (await acts()).restartDevices(io, names, options),
      ),
    );

  forActing(
    devices
      .command('maintenance')
      .addArgument(new Argument('<state>', 'whether maintenance begins or ends').choices(['on', 'off'])),
  )
    .description('begin or end maintenance, in which no alerts are raised')
    .option('--until <time>', 'when it ends by itself: a time, or a span such as 2h', later)
    .action(
      remote(async (state: 'on' | 'off', names: string[], options: ActOptions & { until?: string }) =>
        (await acts()).setMaintenance(io, state, names, options),
      ),
    );

  forActing(devices.command('tag'))
    .description('add and remove tags')
    .option('--add <tags>', 'separated by commas', words)
    .option('--remove <tags>', 'separated by commas', words)
    .action(
      remote(async (names: string[], options: ActOptions & { add?: string[]; remove?: string[] }) =>
        (await acts()).tagDevices(io, names, options),
      ),
    );

  forActing(devices.command('move'))
    .description('move devices to another site')
    .requiredOption('--to <site>', 'the site, by name or id')
    .action(
      remote(async (names: string[], options: ActOptions & { to: string }) =>
        (await acts()).moveDevices(io, names, options),
      ),
    );

  forActing(devices.command('approve'))
    .description('approve machines that wait for it, each as a device of its own')
    .action(
      remote(async (names: string[], options: ActOptions) =>
        (await acts()).approveDevices(io, names, options),
      ),
    );
}

const Delay = z.coerce.number('must be a number').int().min(0).max(86_400);

/** As the server has it. */
const SEARCH_MAX = 50;

const DEFAULT_COLUMNS: ColumnName[] = ['hostname', 'status', 'os', 'agent', 'lastSeen', 'id'];

function columns(text: string): ColumnName[] {
  return text.split(',').map((name) => {
    const column = name.trim();
    if (isColumn(column)) return column;
    throw new InvalidArgumentError(`There is no column ${column}.`);
  });
}
const isColumn = (text: string): text is ColumnName => Object.hasOwn(COLUMNS, text);

import { type Command, InvalidArgumentError, Option } from 'commander';
import { DeviceStatus, OsType } from '../../../protocol/index.ts';
import type { CommandLine } from '../../io.ts';
import type { DevicesOptions } from '../devices.ts';
import { COLUMNS, type ColumnName } from '../output.ts';
import type { SearchOptions } from '../search.ts';
import { forConnection, Id, Limit, parsed, remoteAction, withConditions } from './remote-command.ts';

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

  forConnection(program.command('search'))
    .argument('<text>', 'a part of a name, an address, a serial number, a tag and more')
    .option('--limit <number>', 'the most results', parsed(Limit.max(SEARCH_MAX)), 20)
    .action(
      remote(async (text: string, options: SearchOptions) =>
        (await import('../search.ts')).search(io, text, options),
      ),
    );
}

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

import { exitCodeIn, type Ending } from '../../../../../protocol/index.ts';
import type { Command } from '../../../../api/index.ts';
import { formatWord } from '../../../../ui/index.ts';

const NAMES: Record<string, string> = {
  'script.run': 'Run a script',
  'agent.reboot': 'Restart the machine',
  'agent.refresh-inventory': 'Refresh the inventory',
  'agent.set-auto-update': 'Set automatic updates',
};

interface Named {
  type: string;
  scriptName: string | null;
}

/** What a command does; of a script that is still there, its name. */
export const commandName = ({ type, scriptName }: Named): string =>
  scriptName === null ? (NAMES[type] ?? formatWord(type)) : `Script: ${scriptName}`;

/** How a command stands: as the hub says, where it does, or as the command was read. */
export const endingOf = ({ status, output }: Pick<Command, 'status' | 'output'>, job?: Ending): Ending =>
  job ?? { state: status, exitCode: exitCodeIn(output) };

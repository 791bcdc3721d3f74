import { formatWord } from '../../../../ui/index.ts';

const NAMES: Record<string, string> = {
  'script.run': 'Run a script',
  'agent.reboot': 'Restart the machine',
  'agent.refresh-inventory': 'Refresh the inventory',
  'agent.set-auto-update': 'Set automatic updates',
};

export const commandName = (type: string): string => NAMES[type] ?? formatWord(type);

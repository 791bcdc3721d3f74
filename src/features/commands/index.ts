import { byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { commandRoutes } from './command.routes.ts';
import { commandRetention } from './retention.ts';

export { autoUpdateCommands } from './auto-update.ts';
export { SEALED_COMMAND_SECRET } from './command-secrets.ts';
export { createCommandLedger } from './command-ledger.ts';
export { Command, Refusal } from './command.schema.ts';
export { addCommands, cancelCommand } from './command.service.ts';
export {
  type AddedCommand,
  addServerCommand,
  announceCommands,
  cancelServerCommand,
  type EndedCommand,
  endsOfCommands,
  findEndOfCommand,
} from './server-commands.ts';

export const feature = defineFeature({
  name: 'commands',
  routes: (parts: Parameters<typeof commandRoutes>[0]) => [commandRoutes(parts)],
  tables: [
    ...byRules(commandRetention),
    cascade('command_transitions', 'commands'),
    // They go with the end of the command already, by a trigger.
    cascade('command_secrets', 'commands'),
  ],
});

import { byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { commandRoutes } from './command.routes.ts';
import { commandRetention } from './command.model.ts';

export {
  autoUpdateCommands,
  addCommands,
  cancelCommand,
  type AddedCommand,
  addServerCommand,
  addServerCommands,
  announceCommands,
  cancelServerCommand,
  type EndedCommand,
  endsOfCommands,
  findEndOfCommand,
  GONE,
  readCommands,
} from './command.service.ts';
export {
  cancelUnsent,
  commandTimeline,
  requestCancelOfExecution,
  SEALED_COMMAND_SECRET,
  setWorkOfCommand,
} from './command.queries.ts';
export { createCommandLedger } from './command-ledger.ts';
export { Command, Refusal } from './command.schema.ts';

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

export { createCommandLedger } from './command-ledger.ts';
export { commandRoutes } from './command.routes.ts';
export { Command, Refusal } from './command.schema.ts';
export { addCommands } from './command.service.ts';
export { commandRetention } from './retention.ts';
